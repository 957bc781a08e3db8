"""A warehouse is found again from every folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from sealberg.catalogs.warehouse import absolute
from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1]})


def catalog(folder: Path, warehouse: str) -> Any:
    return sealberg.load_catalog(
        "w",
        type="sql",
        uri=f"sqlite:///{folder}/c.db",
        warehouse=warehouse,
        **{"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "11" * 16},
    )


@pytest.mark.parametrize("warehouse", ["wh", "./wh", "a b/wh", "~/wh", "file:wh", "file:~/wh", "../wh"])
def test_a_table_in_a_relative_warehouse_is_read_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warehouse: str
) -> None:
    for name in ("here", "there", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    with catalog(tmp_path, warehouse) as first:
        first.create_namespace("n")
        table = first.create_table("n.t", ROWS.schema, properties={"encryption.key-id": "hr"})
        table.append(ROWS)
        assert str(tmp_path) in table.location()
    assert not (tmp_path / "here" / "~").exists()
    monkeypatch.chdir(tmp_path / "there")
    with catalog(tmp_path, warehouse) as second:
        assert second.load_table("n.t").scan().to_arrow() == ROWS


@pytest.mark.parametrize("given", ["/w", "/w/", "file:///w", "file:/w", "file://localhost/w", "s3://b/wh", "hdfs:///w"])
def test_an_absolute_warehouse_stays_as_it_is(given: str) -> None:
    assert absolute(given) == given


@pytest.mark.parametrize("given", ["file://wh", "file://wh/x", "file://~/wh", "file://./wh", "~nobody-of-this-name/wh"])
def test_a_warehouse_that_is_nowhere_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError, match="warehouse"):
        catalog(tmp_path, given)
