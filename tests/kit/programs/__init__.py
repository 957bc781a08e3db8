"""Programs that tests start: Java, Maven, Spark in its many forms."""
