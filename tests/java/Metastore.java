import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.shims.ShimLoader;

/** A Hive Metastore in a folder: java Metastore PORT FOLDER. All that it needs is among the jars of PySpark. */
public final class Metastore {
    public static void main(String[] args) throws Throwable {
        String folder = args[1];
        boolean started = Files.exists(Path.of(folder, "derby")); // by an earlier metastore in the same folder
        Map<String, String> settings = Map.of(
                "javax.jdo.option.ConnectionURL", "jdbc:derby:;databaseName=" + folder + "/derby;create=true",
                "datanucleus.schema.autoCreateAll", "true",
                "datanucleus.connectionPoolingType", "NONE",
                "hive.metastore.schema.verification", "false",
                "hive.metastore.disallow.incompatible.col.type.changes", "false",
                "hive.metastore.warehouse.dir", "file://" + folder + "/warehouse",
                "hive.async.log.enabled", "false");
        // The pieces of the metastore that make a configuration of their own find the settings here.
        settings.forEach(System::setProperty);
        HiveConf conf = new HiveConf();
        settings.forEach(conf::set);
        TxnDbUtil.setConfValues(conf);
        if (!started) {
            TxnDbUtil.prepDb(conf);
        }
        HiveMetaStore.startMetaStore(Integer.parseInt(args[0]), ShimLoader.getHadoopThriftAuthBridge(), conf);
    }

    private Metastore() {}
}
