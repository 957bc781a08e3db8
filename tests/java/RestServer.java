import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * Iceberg's own REST catalog server, as many as are asked for in one JVM. A line of standard input, a warehouse and a
 * SQLite file with a tab between them, opens one; its address is the line that comes back. The end of the input ends
 * them all.
 */
public class RestServer {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split("\t");
      System.out.println(open(words[0], words[1]));
      System.out.flush();
    }
    System.exit(0);
  }

  private static String open(String warehouse, String database) throws Exception {
    Map<String, String> properties = new HashMap<>();
    properties.put("warehouse", warehouse);
    properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    properties.put("uri", "jdbc:sqlite:" + database);
    properties.put("jdbc.schema-version", "V1");
    properties.put("clients", "1"); // SQLite has one writer
    var catalog = CatalogUtil.buildIcebergCatalog("backend", properties, new Configuration());
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server, 1, 1);
    connector.setHost("127.0.0.1");
    server.addConnector(connector);
    server.setHandler(context);
    server.start();
    return "http://127.0.0.1:" + connector.getLocalPort();
  }
}
