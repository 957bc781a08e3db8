"""Two users of one server: what one of them sets in his session reaches neither the other nor the server."""

from __future__ import annotations

import getpass
import http.server
import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.doors import Door, Lake, Refused, connect, connect_server, jdbc, thrift_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a-token-of-the-test"
KEYED = "TBLPROPERTIES ('encryption.key-id' = 'hr')"
CLASS = "sealberg.catalog.EncryptedCatalog"


class Attacker(http.server.BaseHTTPRequestHandler):
    """A KMS of the attacker's own; it notes that somebody came."""

    visits: list[str]

    def do_GET(self) -> None:
        self.visits.append(f"{self.path} {self.headers}")
        self.send_response(404)
        self.end_headers()

    do_POST = do_PUT = do_GET


@contextmanager
def attacker() -> Iterator[tuple[str, list[str]]]:
    visits: list[str] = []
    handler = type("Noting", (Attacker,), {"visits": visits})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", visits
        server.shutdown()


@contextmanager
def two_users(kind: str, lake: Lake) -> Iterator[tuple[Door, Door]]:
    """The doors of ada and eve at one server."""
    with ExitStack() as opened:
        if kind == "thrift":
            url = opened.enter_context(thrift_server(lake))
            yield opened.enter_context(jdbc(lake, url, "ada")), opened.enter_context(jdbc(lake, url, "eve"))
            return
        lake.environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = TOKEN
        url = opened.enter_context(connect_server(lake))
        yield (
            opened.enter_context(connect(lake, f"{url}/;user_id=ada")),
            opened.enter_context(connect(lake, f"{url}/;user_id=eve")),
        )


def put(door: Door, name: str, value: str) -> None:
    door.run(f"SET `{name}`=`{value}`")


@pytest.mark.parametrize("kind", ["thrift", "connect"])
def test_a_session_says_nothing_of_how_a_catalog_is_reached(tmp_path: Path, kind: str) -> None:
    lake = Lake.create(tmp_path)
    lake.environment["VAULT_TOKEN"] = "canary-token-of-the-server"
    one_line = tmp_path / "one-line-of-the-server"
    one_line.write_text("canary-passphrase\n")
    with attacker() as (address, visits), two_users(kind, lake) as (ada, eve):
        poisons_a_catalog(eve, address, tmp_path)
        makes_up_a_catalog(eve, address, str(one_line))
        put(eve, "spark.sql.catalog.prod.default-namespace", "hr")  # which concerns nobody else
        ada.run("CREATE NAMESPACE prod.hr")
        ada.run(f"CREATE TABLE prod.hr.pay (name string, salary bigint) {KEYED}")
        ada.run("INSERT INTO prod.hr.pay VALUES ('Ada', 120)")
        assert lake.data_files(), "the rows are where the operator said"
        put(eve, "fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
        with pytest.raises(
            Refused, match=r"this session has set fs\.file\.impl: .* sets spark\.hadoop\.fs\.file\.impl"
        ):
            eve.run("SELECT * FROM prod.hr.pay")
        eve.run("RESET `fs.file.impl`")
        assert eve.run("SELECT * FROM prod.hr.pay") == ada.run("SELECT * FROM prod.hr.pay") == [["Ada", "120"]]
        assert visits == []
    assert not (tmp_path / "attacker").exists()


def poisons_a_catalog(eve: Door, address: str, folder: Path) -> None:
    """`eve` is the first to touch the operator's catalog, with options of her session."""
    for key, value in {
        "encryption.kms.vault.address": address,
        "encryption.kms-type": "vault",
        "encryption.kms-impl": "antigravity:Evil",
        "warehouse": f"file://{folder}/attacker",
        "s3.endpoint": address,
        "py-catalog-impl": "antigravity.Evil",
        "py-io-impl": "antigravity.Evil",
        "table-override.encryption.key-id": "mine",
        "no-such-option": "x",
    }.items():
        name = f"spark.sql.catalog.prod.{key}"
        put(eve, name, value)
        for statement in ("SHOW NAMESPACES IN prod", "CREATE NAMESPACE prod.x", "CALL prod.system.keys('x.y')"):
            with pytest.raises(Refused, match=f"this session has set {name}: .*never in a session"):
                eve.run(statement)
        eve.run(f"RESET `{name}`")


def makes_up_a_catalog(eve: Door, address: str, one_line: str) -> None:
    options = {
        "type": "sql",
        "uri": f"sqlite:///{one_line}.db",
        "warehouse": f"file://{one_line}-w",
        "encryption.kms-type": "vault",
        "encryption.kms.vault.address": address,
        "encryption.kms.vault.token-file": one_line,
    }
    for name in ("evil", "PROD", "Prod"):
        put(eve, f"spark.sql.catalog.{name}", CLASS)
        with pytest.raises(Refused, match=f"no catalog {name} is configured: .*A session cannot make a catalog"):
            eve.run(f"SHOW NAMESPACES IN {name}")
    for key, value in options.items():
        put(eve, f"spark.sql.catalog.evil.{key}", value)
    with pytest.raises(Refused, match=r"this session has set spark\.sql\.catalog\.evil\.encryption\.kms-type"):
        eve.run("CREATE NAMESPACE evil.x")
    put(eve, "spark.sealberg.programServes", "false")
    put(eve, "spark.sealberg.properties-file", one_line)
    with pytest.raises(Refused, match=r"this session has set spark\.sql\.catalog\.evil\.encryption\.kms-type"):
        eve.run(f"CREATE TABLE evil.x.y (a int) {KEYED}")


AUDITED = """
import logging, os
log = logging.getLogger("sealberg.audit")
log.setLevel(logging.INFO)
log.addHandler(logging.FileHandler(os.environ["AUDIT"]))
"""


@pytest.mark.parametrize("kind", ["thrift", "connect"])
def test_the_audit_log_names_the_user_of_the_server(tmp_path: Path, kind: str) -> None:
    lake = Lake.create(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(AUDITED)
    log = tmp_path / "audit.jsonl"
    path = os.pathsep.join(filter(None, [str(tmp_path / "site"), lake.environment.get("PYTHONPATH")]))
    lake.environment |= {"PYTHONPATH": path, "AUDIT": str(log)}
    with two_users(kind, lake) as (ada, eve):
        ada.run("CREATE NAMESPACE prod.hr")
        ada.run(f"CREATE TABLE prod.hr.pay (name string, salary bigint) {KEYED}")
        ada.run("INSERT INTO prod.hr.pay VALUES ('Ada', 120)")
        of_ada = lines(log)
        eve.run("SELECT * FROM prod.hr.pay")
        eve.run("CALL prod.system.rotate('hr.pay')")
        of_eve = lines(log)[len(of_ada) :]
    assert {line["event"] for line in of_eve} >= {"wrap", "cached"}
    for found, name in ((of_ada, "ada"), (of_eve, "eve")):
        assert {(line["on_behalf_of"], line["authenticated"]) for line in found} == {(name, kind == "thrift")}
    assert {line["user"] for line in of_ada + of_eve} == {getpass.getuser()}


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


STARTS_A_SERVER = """
import json, sys
import sealberg.spark
spark = sealberg.spark.session("prod", **json.loads(sys.argv[1]))
print("before", spark.sql("SHOW NAMESPACES IN prod").count())
server = spark._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
server.startWithContext(spark._jsparkSession.sqlContext())
try:
    spark.sql("SHOW NAMESPACES IN prod").count()
except Exception as error:
    print("after", error)
spark.stop()
"""


def test_a_server_that_a_program_starts_is_seen(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    mine = {name: value for name, value in lake.conf.items() if name != "spark.jars"}
    mine |= {"spark.hadoop.hive.server2.thrift.port": "0", "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1"}
    command = [sys.executable, "-c", STARTS_A_SERVER, json.dumps(mine)]
    done = subprocess.run(
        command, cwd=tmp_path, env=lake.environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert "before 0" in done.stdout, done.stderr[-4000:]
    assert "this Thrift server asks nobody for a password" in done.stdout, done.stdout + done.stderr[-4000:]


def test_a_strict_server_refuses_what_acts_as_the_server(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path, **{"spark.sealberg.strict": "true"})
    lake.environment["VAULT_TOKEN"] = "canary-token-of-the-server"
    one_line = tmp_path / "one-line-of-the-server"
    one_line.write_text("canary-line\n")
    with two_users("thrift", lake) as (ada, eve):
        ada.run("CREATE NAMESPACE prod.hr")
        ada.run(f"CREATE TABLE prod.hr.pay (name string, salary bigint) {KEYED}")
        ada.run("INSERT INTO prod.hr.pay VALUES ('Ada', 120)")
        ada.run("CREATE TEMPORARY VIEW mine AS SELECT * FROM prod.hr.pay")
        assert ada.run("SELECT count(*) FROM mine m JOIN prod.hr.pay p ON m.name = p.name") == [["1"]]
        assert ada.run("SELECT count(*) FROM prod.hr.pay.snapshots") == [["1"]]
        assert ada.run("CALL prod.system.verify('hr.pay')")[0][1] == "passed"
        ada.run("CREATE TABLE plain (a int) USING parquet")
        ada.run("INSERT INTO plain VALUES (1)")
        assert ada.run("SELECT * FROM plain") == [["1"]]
        ada.run("CREATE TABLE parts (a string, p int) USING text PARTITIONED BY (p)")
        ada.run("ALTER TABLE parts ADD PARTITION (p=7)")
        put(eve, "spark.sealberg.strict", "false")  # of a session, which loosens nothing
        for statement in (
            "SELECT java_method('java.lang.System', 'getenv', 'VAULT_TOKEN')",
            "SELECT reflect('java.lang.System', 'getenv', 'VAULT_TOKEN')",
            "SELECT try_reflect('java.lang.System', 'getenv', 'VAULT_TOKEN')",
            "SELECT (SELECT java_method('java.lang.System', 'getenv', 'VAULT_TOKEN')) AS x",
            "CREATE TEMPORARY VIEW v AS SELECT java_method('java.lang.System', 'getenv', 'VAULT_TOKEN') AS x",
            f"SELECT value FROM text.`file://{one_line}`",
            f"SELECT * FROM prod.hr.pay WHERE name IN (SELECT value FROM text.`file://{one_line}`)",
            f"CREATE TEMPORARY VIEW v USING text OPTIONS (path 'file://{one_line}')",
            f"CREATE TABLE t (value string) USING text LOCATION 'file://{one_line}'",
            f"INSERT OVERWRITE DIRECTORY 'file://{tmp_path}/out' USING text SELECT 'x'",
            f"LOAD DATA LOCAL INPATH '{one_line}' INTO TABLE plain",
            "SELECT TRANSFORM (a) USING 'cat' AS (b string) FROM plain",
            "CREATE TEMPORARY VIEW v USING sealberg OPTIONS (path 'prod.hr.pay', `properties-file` '/tmp/x.json')",
            f"ADD JAR '{one_line}'",
            "CREATE TEMPORARY FUNCTION f AS 'java.lang.String'",
            "SELECT '${env:VAULT_TOKEN}'",
            "SET x=${env:VAULT_TOKEN}",
            "SELECT '${system:java.class.path}'",
            "EXECUTE IMMEDIATE concat('SELECT \"$', '{env:VAULT_TOKEN}\"')",
            "CALL prod.system.rewrite_data_files('hr.pay', where => concat('name = \"$', '{env:VAULT_TOKEN}\"'))",
            f"CREATE TABLE t LIKE plain USING text LOCATION 'file://{tmp_path}'",
            f"ALTER TABLE parts ADD PARTITION (p=1) LOCATION 'file://{tmp_path}'",
            f"ALTER TABLE plain SET SERDEPROPERTIES ('path'='file://{tmp_path}')",
            f"CREATE TABLE t USING jdbc OPTIONS (url 'jdbc:derby:{tmp_path}/out', dbtable 'SYS.SYSTABLES')",
            "CREATE TABLE t (a int) USING noop",
            f"CREATE DATABASE d LOCATION 'file://{tmp_path}/site'",
            f"ALTER DATABASE default SET LOCATION 'file://{tmp_path}/site'",
            f"REFRESH 'file://{tmp_path}'",
        ):
            refused(eve, statement)
        acts_by_a_catalog_or_a_file_system(eve)
        eve.run("CREATE DATABASE plaindb")
        eve.run("CREATE TABLE plaindb.copy LIKE plain")
        eve.run("SET hivevar:seven=7")
        assert eve.run("SELECT ${hivevar:seven}") == [["7"]]
    assert not (tmp_path / "out").exists()


def refused(door: Door, statement: str) -> None:
    with pytest.raises(Refused) as caught:
        door.run(statement)
    assert "spark.sealberg.strict=true: " in str(caught.value), (statement, str(caught.value)[:300])
    assert "canary" not in str(caught.value)


def acts_by_a_catalog_or_a_file_system(eve: Door) -> None:
    """A catalog of any class, or a file system that all sessions of the JVM would share."""
    jdbc_catalog = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    for name, value in {
        "spark.sql.catalog.evil": jdbc_catalog,
        "spark.sql.catalog.spark_catalog": jdbc_catalog,
        "spark.sql.catalog.prod.default-namespace": jdbc_catalog,
        "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    }.items():
        put(eve, name, value)
        for statement in ("SHOW NAMESPACES IN evil", "SHOW TABLES", "SELECT * FROM plain"):
            refused(eve, statement)
        eve.run(f"RESET `{name}`")
        assert eve.run("SELECT * FROM plain") == [["1"]]
