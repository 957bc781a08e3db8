"""Programs that tests start: Java, Maven, Spark."""
