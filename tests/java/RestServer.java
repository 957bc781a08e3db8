import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.encryption.EncryptedKey;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.apache.iceberg.rest.RESTResponse;
import org.apache.iceberg.rest.credentials.ImmutableCredential;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * Iceberg's own REST catalog server, as many as are asked for in one JVM. A line of standard input is a request, with
 * tabs between its words, and one line comes back; the end of the input ends them all.
 *
 * open, warehouse, SQLite file, settings of Hadoop, properties that are vended with every table (both as name=value
 * with spaces between them, or nothing): the address of a new server
 * look, address, namespace, table: what Java's own client finds there: the ids of encryption keys and of the keys of
 * snapshots, and how a scan ends
 */
public class RestServer {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split("\t");
      System.out.println(words[0].equals("open") ? open(words) : look(words[1], words[2], words[3]));
      System.out.flush();
    }
    System.exit(0);
  }

  private static String open(String[] words) throws Exception {
    Map<String, String> properties = new HashMap<>();
    properties.put("warehouse", words[1]);
    properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    properties.put("uri", "jdbc:sqlite:" + words[2]);
    properties.put("jdbc.schema-version", "V1");
    properties.put("clients", "1"); // SQLite has one writer
    Configuration hadoop = new Configuration();
    pairs(words, 3).forEach(hadoop::set);
    var catalog = CatalogUtil.buildIcebergCatalog("backend", properties, hadoop);
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new Vending(catalog, pairs(words, 4)))), "/*");
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server, 1, 1);
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    server.setHandler(context);
    server.start();
    return "http://127.0.0.1:" + connector.getLocalPort();
  }

  private static Map<String, String> pairs(String[] words, int at) {
    Map<String, String> found = new HashMap<>();
    for (String pair : words.length > at && !words[at].isEmpty() ? words[at].split(" ") : new String[0]) {
      found.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
    }
    return found;
  }

  /** Hands out credentials with every table, for its location. */
  private static final class Vending extends RESTCatalogAdapter {
    private final Map<String, String> vended;

    Vending(Catalog catalog, Map<String, String> vended) {
      super(catalog);
      this.vended = vended;
    }

    @Override
    protected <T extends RESTResponse> T execute(
        HTTPRequest request, Class<T> type, Consumer<ErrorResponse> errors, Consumer<Map<String, String>> headers) {
      T answer = super.execute(request, type, errors, headers);
      if (vended.isEmpty() || !(answer instanceof LoadTableResponse table)) {
        return answer;
      }
      String prefix = table.tableMetadata().location();
      return type.cast(LoadTableResponse.builder().withTableMetadata(table.tableMetadata()).addAllConfig(table.config())
          .addCredential(ImmutableCredential.builder().prefix(prefix).config(vended).build()).build());
    }
  }

  private static String look(String address, String namespace, String name) throws Exception {
    try (RESTCatalog client = new RESTCatalog()) {
      client.initialize("java", Map.of("uri", address, "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"));
      BaseTable table = (BaseTable) client.loadTable(TableIdentifier.of(namespace, name));
      TableMetadata metadata = table.operations().current();
      String keys = String.join(",", metadata.encryptionKeys().stream().map(EncryptedKey::keyId).toList());
      String used = String.join(",", metadata.snapshots().stream().map(Snapshot::keyId).toList());
      try (var files = table.newScan().planFiles()) {
        files.iterator().next();
        return keys + "\t" + used + "\tread";
      } catch (RuntimeException refusal) {
        return keys + "\t" + used + "\t" + refusal.getMessage().lines().findFirst().orElse("");
      }
    }
  }
}
