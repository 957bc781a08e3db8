"""Python, Spark and the command line mean the same catalog where none is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import sealberg
from sealberg.catalogs.load import configured_catalogs, default_catalog
from sealberg.cli.main import main
from sealberg.errors import ConfigError
from sealberg.spark import configure
from sealberg.spark.sessions import CATALOG_CLASS

SQL = "    type: sql\n    uri: 'sqlite:///{home}/{name}.db'\n    warehouse: '{home}/{name}'\n"


class Builder:
    """What `configure` needs of Spark's builder, without Spark."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def config(self, name: str, value: Any) -> Builder:
        self.options[name] = value
        return self


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("PYICEBERG_", "SEALBERG_"))]:
        monkeypatch.delenv(name)
    for name in ("HOME", "PYICEBERG_HOME", "SEALBERG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for module in ("sealberg.spark.sessions", "sealberg.spark.jar"):
        monkeypatch.setattr(f"{module}.find_jar", lambda: Path("sealberg.jar"))
    return tmp_path


def write_configuration(home: Path, *names: str, default: str | None = None) -> None:
    text = f"default-catalog: {default}\n" if default else ""
    text += "catalog:\n" if names else ""
    text += "".join(f"  {name}:\n{SQL.format(home=home, name=name)}" for name in names)
    if text:
        (home / ".pyiceberg.yaml").write_text(text)


def catalogs_of_spark(conf: dict[str, Any]) -> set[str]:
    return {name.rpartition(".")[2] for name, value in conf.items() if value == CATALOG_CLASS}


@pytest.mark.parametrize(
    ("names", "default", "expected"),
    [
        ((), None, "local"),
        (("prod",), None, "local"),
        (("default", "prod"), None, "default"),
        (("default", "prod"), "prod", "prod"),
        (("prod",), "local", "local"),
    ],
)
def test_every_door_opens_the_same_default(
    home: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...], default: str | None, expected: str
) -> None:
    write_configuration(home, *names, default=default)
    assert default_catalog() == expected
    with sealberg.load_catalog() as opened:
        assert opened.name == expected
    builder = Builder()
    configure(builder)  # type: ignore[arg-type]
    assert catalogs_of_spark(builder.options) == {expected}
    with pytest.raises(SystemExit):
        main(["spark-conf"])
    printed = capsys.readouterr()
    assert f"spark.sql.catalog.{expected}=" in printed.out
    assert printed.err == ""
    with pytest.raises(SystemExit):
        main(["trust", "db.t"])
    assert f"no table db.t in the catalog {expected}" in capsys.readouterr().err


def test_a_default_catalog_that_is_not_configured_is_an_error_and_not_the_local_one(home: Path) -> None:
    write_configuration(home, "dev", "test", default="prod")
    with pytest.raises(ConfigError, match=r"no catalog prod .* default-catalog names it; .* are dev, test"):
        sealberg.load_catalog()
    assert not (home / "catalog.db").exists()


def test_the_default_can_be_named_by_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_configuration(home, "dev", "prod")
    monkeypatch.setenv("PYICEBERG_DEFAULT_CATALOG", "dev")
    assert default_catalog() == "dev"
    assert configured_catalogs() == ["dev", "prod"]


def test_names_are_exact(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg keeps names in lower case: the properties of `prod` are not those of whoever asks for PROD."""
    write_configuration(home, "prod", "Team")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY", "canary")
    for name in ("PROD", "Prod", "LAKE", "TEAM"):
        for given in ({}, {"type": "sql", "uri": f"sqlite:///{home}/x.db", "s3.endpoint": "http://attacker"}):
            with pytest.raises(ConfigError, match=f"no catalog {name} is configured, and {name.lower()} is"):
                sealberg.load_catalog(name, **given)
    for name in ("prod", "Team"):
        with sealberg.load_catalog(name) as found:
            assert found.name == name
