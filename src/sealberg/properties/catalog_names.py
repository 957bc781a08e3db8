"""Properties of catalogs."""

from __future__ import annotations

from typing import Final

from sealberg.properties.known import HIVE, NO_EFFECT, OBEYED, REFUSED, RETRY, SKEW, Known

_JAVA_CLASS: Final = "a Java class; sealberg's catalogs are PyIceberg's: type, and py-io-impl for storage"
_OTHER_FORMATS: Final = (
    "Spark makes tables of its own formats without asking spark_catalog; USING iceberg makes an Iceberg table, and "
    "write.format.default is its format"
)

CATALOG_PROPERTIES: Final = (
    Known("type", OBEYED),
    Known("uri", OBEYED),
    Known("warehouse", OBEYED),
    Known("default-namespace", OBEYED, "on Spark; a session may set it for itself"),
    Known("py-catalog-impl", OBEYED),
    Known("py-io-impl", OBEYED),
    Known("encryption.kms-type", OBEYED, "aws, azure, gcp, keystore, memory, pkcs11 or vault"),
    Known(
        "encryption.kms-impl",
        OBEYED,
        "a class of your own, module:Class, or on Spark a class of Java; its own properties need no known name",
    ),
    Known("encryption.kms.", OBEYED, "of the KMS client, which refuses unknown names; docs/kms.md lists them"),
    Known("encryption.required", OBEYED, "true, or namespaces: plaintext tables are refused there", default="false"),
    Known("encryption.default-key-id", OBEYED, "the key of new tables that name none"),
    Known("encryption.default-key-id.", OBEYED, "the same for a namespace"),
    Known("encryption.expected-key-id.", OBEYED, "the key that a table must have; any other is refused"),
    Known("encryption.kek-cache-ttl-s", OBEYED, "how long an unwrapped KEK stays in memory", default="3600"),
    Known("encryption.kek-lifespan-days", OBEYED, "how long a KEK seals new keys, at most 730", default="730"),
    Known(
        "encryption.generate-keks-in-kms",
        OBEYED,
        "new KEKs are made by the KMS: aws, or a class of your own",
        default="false",
    ),
    Known("encryption.allow-plaintext-files", OBEYED, "for manifests that Java wrote in plaintext", default="false"),
    Known("encryption.allow-missing-length", OBEYED, "for key metadata without a file length", default="false"),
    Known("sealberg.storage.locations", OBEYED, "other stores in which files of tables may be"),
    Known("unique-table-location", OBEYED, "true: the folder of a new table has a UUID in its name", default="false"),
    Known("sealberg.metadata.max-bytes", OBEYED, "the largest table metadata that are read", default="268435456"),
    Known("sealberg.rest.storage-endpoints", OBEYED, "endpoints that a REST server may name for storage"),
    Known("commit.max-clock-skew-ms", OBEYED, SKEW, default="600000"),
    *(
        Known(f"sql.retry.{name}", OBEYED, "of SQL catalogs", default=default)
        for name, default in zip(RETRY, ("1000", "100", "1000", "30000"), strict=True)
    ),
    Known("kms.", OBEYED, "of AWS KMS, as in Iceberg Java"),
    Known("azure.keyvault.url", OBEYED, "of Azure Key Vault, as in Iceberg Java"),
    Known("iceberg.engine.hive.lock-enabled", OBEYED, HIVE, default="true"),
    *(
        Known(prefix, OBEYED)
        for prefix in ("s3.", "adls.", "gcs.", "hdfs.", "hf.", "client.", "glue.", "dynamodb.", "hive.")
    ),
    Known("rest.", OBEYED),
    Known("rest-page-size", OBEYED),
    Known("rest-metrics-reporting-enabled", OBEYED),
    Known("prefix", OBEYED),
    Known("scope", OBEYED),
    Known("audience", OBEYED),
    Known("resource", OBEYED),
    Known("oauth2-server-uri", OBEYED),
    Known("ssl.", OBEYED),
    Known("snapshot-loading-mode", OBEYED),
    Known("scan-planning-mode", OBEYED),
    Known("namespace-separator", OBEYED),
    Known("view-endpoints-supported", OBEYED),
    Known("table-name", OBEYED, "of DynamoDB"),
    Known("init_catalog_tables", OBEYED, "of SQL catalogs"),
    Known("echo", OBEYED, "of SQL catalogs"),
    Known("pool_pre_ping", OBEYED, "of SQL catalogs"),
    Known("lock-check-min-wait-time", OBEYED, HIVE, default="0.05"),
    Known("lock-check-max-wait-time", OBEYED, HIVE, default="1"),
    Known("lock-check-retries", OBEYED, HIVE),
    Known("table-default.", OBEYED),
    Known("table-override.", OBEYED),
    Known("catalog-impl", REFUSED, _JAVA_CLASS),
    Known("io-impl", REFUSED, _JAVA_CLASS),
    Known("lock-impl", REFUSED, _JAVA_CLASS),
    Known("metrics-reporter-impl", REFUSED, _JAVA_CLASS),
    Known("parquet-enabled", REFUSED, _OTHER_FORMATS),
    Known("avro-enabled", REFUSED, _OTHER_FORMATS),
    Known("orc-enabled", REFUSED, _OTHER_FORMATS),
    Known("view-default.", REFUSED, "sealberg has no views"),
    Known("view-override.", REFUSED, "sealberg has no views"),
    Known("cache-enabled", NO_EFFECT, "a statement loads its tables anew, so that it sees what others have committed"),
    Known("cache.", NO_EFFECT, "a statement loads its tables anew, so that it sees what others have committed"),
    Known("io.manifest.", NO_EFFECT, "decoded manifests are kept in memory by sealberg itself"),
    Known("clients", NO_EFFECT, "of the pools of Iceberg Java"),
    Known("client-pool-cache-keys", NO_EFFECT, "of the pools of Iceberg Java"),
    Known("auth.session-timeout-ms", NO_EFFECT, "of the sessions of Iceberg Java"),
    Known("lock.", NO_EFFECT, "of the lock managers of Iceberg Java"),
    Known("app-id", NO_EFFECT, "a label in the logs of Iceberg Java"),
    Known("app-name", NO_EFFECT, "a label in the logs of Iceberg Java"),
    Known("user", NO_EFFECT, "a label in the logs of Iceberg Java"),
)

# What a session may set for itself in spark.sql.catalog.NAME.*: nothing that another session or the storage would see.
SESSION_OPTIONS: Final = tuple(
    known for known in CATALOG_PROPERTIES if known.name == "default-namespace" or known.fate == NO_EFFECT
)
