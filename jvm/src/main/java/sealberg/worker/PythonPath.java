package sealberg.worker;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkFiles;

/** The PYTHONPATH of a process that this JVM starts. */
public final class PythonPath {
  private PythonPath() {}

  /** Replaces the PYTHONPATH of an environment. */
  public static void set(Map<String, String> environment) {
    String path = pythonPath(environment.get("PYTHONPATH"));
    if (path.isEmpty()) {
      environment.remove("PYTHONPATH");
    } else {
      environment.put("PYTHONPATH", path);
    }
  }

  /**
   * PYTHONPATH without the working directory, for which an empty entry stands, and with the
   * archives of --py-files.
   */
  private static String pythonPath(String given) {
    List<String> entries = new ArrayList<>();
    for (String entry : given == null ? new String[0] : given.split(File.pathSeparator)) {
      if (!entry.isEmpty() && !entry.equals(".")) {
        entries.add(entry);
      }
    }
    for (String shipped : SparkEnv.get().conf().get("spark.submit.pyFiles", "").split(",")) {
      String name = shipped.substring(shipped.lastIndexOf('/') + 1);
      File local = new File(SparkFiles.getRootDirectory(), name);
      if (name.matches(".*[.](zip|egg|jar|whl)") && local.isFile()) {
        entries.add(local.getAbsolutePath());
      }
    }
    return String.join(File.pathSeparator, entries);
  }
}
