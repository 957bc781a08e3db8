"""What the plans of `encrypt` and `decrypt` share: how much there is to copy, and whether it is copied already."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from sealberg.catalogs.base import EncryptedCatalog
from sealberg.errors import ConfigError
from sealberg.jobs.copying.leftovers import SOURCE
from sealberg.jobs.copying.source import file_of, read_source
from sealberg.jobs.job import Amount
from sealberg.keys.manager import KEY_ID_PROPERTY

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.copying.copier import Tally
    from sealberg.jobs.copying.result import CopyResult


def is_copy(catalog: Catalog, target: Identifier, identity: str, key_id: str | None) -> bool:
    """Whether the target exists and was made from this source; a table of another origin is refused."""
    try:
        table = catalog.load_table(target)
    except NoSuchTableError:
        return False
    found = table.metadata.properties
    if found.get(SOURCE) != identity:
        raise ConfigError(f"the table {'.'.join(target)} exists and is not a copy of the source, expected a new name")
    if found.get(KEY_ID_PROPERTY) != key_id:
        raise ConfigError(f"{'.'.join(target)} is a copy under the key {found.get(KEY_ID_PROPERTY)}, not {key_id}")
    return True


def admit_copy(catalog: Catalog, target: Identifier, properties: dict[str, str]) -> None:
    """Refuse a copy that the configuration of the catalog would refuse under this name: another key, or none."""
    if isinstance(catalog, EncryptedCatalog):
        catalog.policy.admit(target, catalog.policy.bound(target, properties))


def amount_of(table: Table, *, history: bool, known: frozenset[int] = frozenset()) -> Amount:
    """The files that a copy copies one by one, by the manifests; refused if one of them cannot be copied.

    Args:
        known: snapshots that the copy has already, with their files.
    """
    source = read_source(table, known, history=history)
    source.check_formats()
    found = source.files
    if known:
        before = read_source(table, frozenset(), history=True)
        old = {
            path
            for number in known & before.lines.keys()
            for line in before.lines[number]
            for path in (str(file_of(entry).file_path) for entry in before.manifests[line].live)
        }
        found = {path: file for path, file in found.items() if path not in old}
    return Amount(len(found), sum(int(file.file_size_in_bytes or 0) for file in found.values()))


def tallied(result: CopyResult, tally: Tally) -> CopyResult:
    return replace(
        result,
        files=tally.files,
        bytes=tally.bytes,
        rows=tally.rows,
        earlier=tally.earlier,
        decoded=tally.decoded,
        deletes=tally.positions,
        columns={name: f"{value & (1 << 64) - 1:016x}" for name, value in sorted(tally.columns.items())},
        kept=dict(tally.kept),
    )
