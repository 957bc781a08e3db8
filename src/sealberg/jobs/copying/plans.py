"""What the plans of `encrypt` and `decrypt` share: how much there is to copy, and whether it is copied already."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from sealberg.errors import ConfigError
from sealberg.jobs.copying.work_table import SOURCE
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


def amount_of(table: Table) -> Amount:
    """The data files of the current snapshot, by its summary."""
    snapshot = table.metadata.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return Amount()
    said = snapshot.summary.additional_properties
    files, size = said.get("total-data-files", "0"), said.get("total-files-size", "")
    return Amount(int(files) if files.isdigit() else 0, int(size) if size.isdigit() else None)


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
    )
