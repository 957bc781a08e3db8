import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.apache.iceberg.TableMetadataParser;

/** What Java makes of the metadata.json files of a folder: a line for each that it refuses, and a last one: their number. */
public final class MetadataCheck {
  private MetadataCheck() {}

  public static void main(String[] arguments) throws Exception {
    List<Path> files;
    try (Stream<Path> found = Files.list(Path.of(arguments[0]))) {
      files = found.filter(file -> file.toString().endsWith(".json")).sorted().toList();
    }
    for (Path file : files) {
      String location = "file:/metadata/" + file.getFileName();
      try {
        TableMetadataParser.toJson(TableMetadataParser.fromJson(location, Files.readString(file)));
      } catch (Exception refused) {
        System.out.println(file.getFileName() + "\t" + refused.toString().replace('\n', ' '));
      }
    }
    System.out.println(files.size());
  }
}
