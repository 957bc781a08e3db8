"""What a role of the KMS may do with a table, by policies of a real OpenBao, as docs/threat-model.md says.

Each cell is tried with a catalog of its own, which has no KEK in its cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.servers.openbao import OpenBao, openbao
from sealberg.errors import AccessDeniedError, KeyAccessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow  # servers that restart, or children that are forked under load

PAGE = Path(__file__).parent.parent.parent / "docs" / "threat-model.md"
SCHEMA = pa.schema([("id", pa.int64())])
ROWS = pa.table({"id": [1]}, schema=SCHEMA)
UNWRAP = 'path "transit/decrypt/{key}" {{ capabilities = ["update"] }}\n'
WRAP = 'path "transit/encrypt/{key}" {{ capabilities = ["update"] }}\n'
# A wrap makes sure that the key exists; without unwrap, a role needs this to do so.
LOOK = 'path "transit/keys/{key}" {{ capabilities = ["read"] }}\n'
# The rows of the table: the role, the transit key, and what OpenBao lets it do.
ROLES = {
    "neither": ("hr", UNWRAP.replace("{key}", "another")),
    "unwrap": ("hr", UNWRAP),
    "wrap": ("hr", WRAP + LOOK),
    "wrap and unwrap": ("hr", WRAP + UNWRAP),
    "wrap and unwrap, versions of the master key before the last rotation closed": ("closed", WRAP + UNWRAP),
}
# Every KEK that is older than 9 ms has served its time.
KEK_DUE = {"encryption.kek-lifespan-days": "1e-7"}


class Office:
    """A server, a folder for catalog and tables, and a token for each role."""

    def __init__(self, server: OpenBao, folder: Path) -> None:
        self.server, self.folder = server, folder

    def connect(self, token: str, **more: str) -> Any:
        file = self.folder / f"token-{abs(hash(token))}"
        file.write_text(token)
        return sealberg.load_catalog(
            "office",
            type="sql",
            uri=f"sqlite:///{self.folder}/c.db",
            warehouse=f"file://{self.folder}/warehouse",
            **{
                "encryption.kms-type": "vault",
                "encryption.kms.vault.address": self.server.address,
                "encryption.kms.vault.token-file": str(file),
                **more,
            },
        )

    def files(self) -> set[Path]:
        return {path for path in (self.folder / "warehouse").rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    with openbao(folder) as server:
        for key in ("hr", "closed"):
            server.api("POST", f"transit/keys/{key}")
        office = Office(server, folder)
        with office.connect(server.token((WRAP + UNWRAP).format(key="+"))) as owner:
            owner.create_namespace("db")
            for number, (key, _) in enumerate(ROLES.values()):
                owner.create_table(f"db.t{number}", SCHEMA, properties={"encryption.key-id": key}).append(ROWS)
        server.api("POST", "transit/keys/closed/rotate")
        server.api("POST", "transit/keys/closed/config", {"min_decryption_version": 2})
        yield office


def look(catalog: Any, name: str, key: str) -> None:
    table = catalog.load_table(name)
    assert (table.schema().column_names, len(table.snapshots())) == (["id"], 1)


def read(catalog: Any, name: str, key: str) -> None:
    assert catalog.load_table(name).scan().to_arrow().num_rows == 1


def change(catalog: Any, name: str, key: str) -> None:
    with catalog.load_table(name).transaction() as transaction:
        transaction.set_properties(owner="etl")


def append(catalog: Any, name: str, key: str) -> None:
    catalog.load_table(name).append(ROWS)


def create(catalog: Any, name: str, key: str) -> None:
    catalog.create_table(f"{name}_new", SCHEMA, properties={"encryption.key-id": key}).append(ROWS)


# The columns of the table, in the order in which they are tried.
ACTS: dict[str, tuple[Callable[[Any, str, str], None], dict[str, str]]] = {
    "see schema and snapshots": (look, {}),
    "read rows": (read, {}),
    "change a property": (change, {}),
    "commit rows": (append, {}),
    "commit rows when a new KEK is due": (append, KEK_DUE),
    "first commit to a new table": (create, {}),
}


def tried(office: Office, role: str, act: str) -> str:
    key, policy = ROLES[role]
    run, more = ACTS[act]
    name = f"db.t{list(ROLES).index(role)}"
    before = office.files()
    with office.connect(office.server.token(policy.format(key=key)), **more) as catalog:
        try:
            run(catalog, name, key)
        except KeyAccessError as error:
            said = str(error)
            assert f"key id {key}" in said, "the error names the master key"
            assert name in said, "the error names the table"
            assert "kek id" in said, "the error names the KEK"
            left = {path for path in office.files() - before if path.suffix != ".json"}
            assert left == set(), "a commit that is refused leaves no file"
            return f"`{type(error).__name__}`"
    return "yes"


def documented() -> dict[str, dict[str, str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    start = next(at for at, line in enumerate(lines) if "the KMS grants" in line)
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows[: len(ROLES)]}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_can_do_what_the_threat_model_says(office: Office, role: str) -> None:
    assert {act: tried(office, role, act) for act in ACTS} == documented()[role]


def test_the_page_has_every_role_and_no_other() -> None:
    assert list(documented()) == list(ROLES)


def test_a_reader_is_told_which_permission_a_commit_lacks(office: Office) -> None:
    with office.connect(office.server.token(UNWRAP.format(key="hr")), **KEK_DUE) as catalog:
        table = catalog.load_table("db.t0")
        assert table.scan().to_arrow().num_rows == 1
        with pytest.raises(
            AccessDeniedError, match=r"permission denied .*key id hr, operation wrap a new KEK, table db.t0"
        ):
            table.append(ROWS)
        assert table.refresh().scan().to_arrow().num_rows == 1


def test_a_writer_without_unwrap_is_told_so(office: Office) -> None:
    with office.connect(office.server.token((WRAP + LOOK).format(key="hr"))) as catalog:
        with pytest.raises(AccessDeniedError, match=r"operation unwrap a KEK, table db.t0"):
            catalog.load_table("db.t0").append(ROWS)
        with pytest.raises(AccessDeniedError, match=r"operation unwrap a new KEK, table db.unread"):
            catalog.create_table("db.unread", SCHEMA, properties={"encryption.key-id": "hr"})
        assert not catalog.table_exists("db.unread")
