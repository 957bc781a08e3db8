import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Local files, and the tables of the corpus at the locations where they were written, as HomeFileIO of kit.tables.corpus. */
public class CorpusHome extends RawLocalFileSystem {
  private final Map<String, String> places = new LinkedHashMap<>();

  @Override
  public void initialize(URI uri, Configuration conf) throws IOException {
    for (String pair : conf.getStrings("corpus.places")) {
      String[] sides = pair.split("=", 2);
      places.put(sides[0], sides[1]);
    }
    super.initialize(uri, conf);
  }

  @Override
  public File pathToFile(Path path) {
    String asked = path.toUri().getPath();
    for (Map.Entry<String, String> each : places.entrySet()) {
      if ((asked + "/").startsWith(each.getKey() + "/")) {
        return new File(each.getValue() + asked.substring(each.getKey().length()));
      }
    }
    return super.pathToFile(path);
  }
}
