"""`encryption.kms-impl` names a class of Java: the JVM runs it for Python, behind every door."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sealberg
from kit.programs.commands import compile_java, jdk
from kit.programs.doors import JAVA, Lake, Refused, java_job, spark_sql
from kit.programs.maven import bring
from kit.programs.visit import visit
from sealberg.errors import ConfigError
from sealberg.keys.kms.java_class import java_class

if TYPE_CHECKING:
    from pathlib import Path

IMPL = "com.acme.OurKms"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake whose KMS is the class; its master key is in the operator's file."""
    [iceberg] = bring("org.apache.iceberg:iceberg-core:1.12.0")
    classes = compile_java(JAVA / "OurKms.java", classpath=str(iceberg))
    jar = tmp_path / "our-kms.jar"
    packer = jdk().javac.with_name("jar")
    subprocess.run([packer, "--create", "--file", jar, "-C", classes, "com"], check=True)
    lake = Lake.create(tmp_path)
    lake.conf["spark.jars"] += f",{iceberg},{jar}"
    lake.conf["spark.sql.catalog.prod.encryption.kms-impl"] = IMPL
    lake.conf["spark.sql.catalog.prod.acme.address"] = "kms.example"
    home = tmp_path / "home" / ".pyiceberg.yaml"
    kept = [line for line in home.read_text().splitlines() if "encryption." not in line]
    home.write_text("\n".join([*kept, f"    acme.master.hr: {'cd' * 16}", ""]))
    return lake


def test_a_table_under_a_class_of_java(lake: Lake) -> None:
    with spark_sql(lake) as shell:
        visit(shell, lake)
        shell.run("CREATE TABLE prod.hr.t (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
        shell.run("INSERT INTO prod.hr.t SELECT id FROM range(5)")
        [[_, added, *_]] = shell.run(
            "CALL prod.system.rewrite_data_files(table => 'hr.t', options => map('rewrite-all', 'true'))"
        )
        assert added == "1"
        # The message of the client's exception has the key, and is not shown.
        with pytest.raises(Refused, match=r"com\.acme\.OurKms.*java\.lang\.IllegalArgumentException") as refused:
            shell.run("CREATE TABLE prod.hr.u (id bigint) TBLPROPERTIES ('encryption.key-id' = 'other')")
        assert "no key" not in str(refused.value)
        with pytest.raises(Refused, match="how a catalog and its storage are reached is said when"):
            shell.run("SET `spark.sql.catalog.prod.encryption.kms-impl`=com.evil.Kms")
            shell.run("SELECT * FROM prod.hr.t")


def test_keks_that_the_client_makes(lake: Lake) -> None:
    lake.conf["spark.sql.catalog.prod.encryption.generate-keks-in-kms"] = "true"
    with java_job(lake) as job:
        job.run("CREATE NAMESPACE prod.hr")
        job.run("CREATE TABLE prod.hr.t (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
        job.run("INSERT INTO prod.hr.t VALUES (1)")
        assert job.run("SELECT id FROM prod.hr.t") == [["1"]]
        long = "'encryption.key-id' = 'hr', 'encryption.data-key-length' = '32'"
        with pytest.raises(Refused, match=r"made a key of 16 bytes, and encryption.data-key-length is 32"):
            job.run(f"CREATE TABLE prod.hr.u (id bigint) TBLPROPERTIES ({long})")


@pytest.mark.parametrize(
    ("impl", "address", "said"),
    [
        (
            "com.acme.Nowhere",
            "kms.example",
            r"com\.acme\.Nowhere: the class cannot be used \(java\.lang\.ClassNotFound",
        ),
        ("java.util.ArrayList", "kms.example", r"does not implement org\.apache\.iceberg\.encryption"),
        (IMPL, "elsewhere", r"cannot be used \(java\.lang\.IllegalStateException at com\.acme\.OurKms\.initialize"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_by_name(lake: Lake, impl: str, address: str, said: str) -> None:
    lake.conf["spark.sql.catalog.prod.encryption.kms-impl"] = impl
    lake.conf["spark.sql.catalog.prod.acme.address"] = address
    with java_job(lake) as job:
        for _ in range(2):
            with pytest.raises(Refused, match=said):
                job.run("SHOW NAMESPACES IN prod")


def test_python_alone_says_who_can_run_it(tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    with sealberg.load_catalog("prod", **properties, **{"encryption.kms-impl": IMPL}) as catalog:
        catalog.create_namespace("hr")
        with pytest.raises(ConfigError, match=r"has no module com\.acme. If it is a class of Java, only Spark can run"):
            catalog.create_table("hr.t", pa.schema([("id", pa.int64())]), properties={"encryption.key-id": "hr"})


@pytest.mark.parametrize(
    ("impl", "java"),
    [
        ("com.acme.OurKms", True),
        ("sealberg.keys.kms.memory.MemoryKms", False),
        ("sealberg.keys.kms.memory:MemoryKms", False),
        ("com.acme:OurKms", False),
        ("org.apache.iceberg.aws.AwsKeyManagementClient", False),
        ("OurKms", False),
    ],
)
def test_what_is_taken_for_a_class_of_java(impl: str, java: bool) -> None:
    assert java_class({"encryption.kms-impl": impl}) == (impl if java else None)
