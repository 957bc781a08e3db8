package sealberg.read;

import org.apache.spark.sql.connector.read.InputPartition;

/** The input of a task: its own files with their keys, and its preferred hosts. */
record ScanTask(FileSplit[] files, String[] hosts) implements InputPartition {
  @Override
  public String[] preferredLocations() {
    return hosts;
  }
}
