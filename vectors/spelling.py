"""How values are spelt in the expected rows: `canonical(spelt, type) == canonical(read, type)` if they are the same.

| type | in JSON |
|---|---|
| boolean, int, long, string | as JSON has them |
| float, double | a number, or "NaN", "Infinity", "-Infinity"; a float is the one nearest to the number |
| decimal | a number with all its digits: parse it as a decimal, not as a double |
| binary, fixed | base64 |
| uuid | text with dashes |
| date, time | 2024-02-29, 23:59:59.999999 |
| timestamp, timestamptz | 2024-02-29T12:34:56.123456, with Z at the end if it has a zone (it is UTC) |
| struct, map | an object; the keys of maps as text |
| list | an array |
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
import uuid
from decimal import Decimal
from typing import Any, Final

LINEAGE: Final = {"_row_id": "long", "_last_updated_sequence_number": "long"}


def parsed(line: str) -> dict[str, Any]:
    """One line of expected rows, with numbers as they stand there."""
    row = json.loads(line, parse_float=Decimal)
    assert isinstance(row, dict)
    return row


def canonical_row(row: dict[str, Any], columns: dict[str, Any]) -> tuple[Any, ...]:
    kinds = {**columns, **LINEAGE}
    assert row.keys() == kinds.keys(), (row.keys(), kinds.keys())
    return tuple(canonical(row[name], kind) for name, kind in kinds.items())


def canonical(value: Any, kind: Any) -> Any:  # noqa: PLR0911 (one line a type)
    """A value as spelt in JSON, or as a reader gives it, in a form that can be compared and hashed."""
    if value is None:
        return None
    if isinstance(kind, dict):
        return _nested(value, kind)
    match kind.split("(")[0].split("[")[0]:
        case "float":
            return struct.pack("<f", float(value))
        case "double":
            return struct.pack("<d", float(value))
        case "decimal":
            return Decimal(value)
        case "binary" | "fixed":
            return base64.b64decode(value) if isinstance(value, str) else bytes(value)
        case "uuid":
            return uuid.UUID(bytes=value) if isinstance(value, bytes) else uuid.UUID(str(value))
        case "date" if isinstance(value, dt.date):
            return value.isoformat()
        case "time" if isinstance(value, dt.time):
            return value.isoformat(timespec="microseconds")
        case "timestamp" | "timestamptz" if isinstance(value, dt.datetime):
            zone = "" if value.tzinfo is None else "Z"
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
    return value


def _nested(value: Any, kind: dict[str, Any]) -> Any:
    match kind["type"]:
        case "struct":
            return tuple(canonical(value[field["name"]], field["type"]) for field in kind["fields"])
        case "list":
            return tuple(canonical(one, kind["element"]) for one in value)
        case _:
            pairs = value.items() if isinstance(value, dict) else value
            return tuple(sorted((str(key), canonical(one, kind["value"])) for key, one in pairs))
