"""Tables, catalogs and cases that several tests share."""
