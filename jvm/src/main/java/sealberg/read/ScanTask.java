package sealberg.read;

import org.apache.spark.sql.connector.read.InputPartition;

/** What a task gets: its own files with their keys, and no others; and where it had best run. */
record ScanTask(FileSplit[] files, String[] hosts) implements InputPartition {
  @Override
  public String[] preferredLocations() {
    return hosts;
  }
}
