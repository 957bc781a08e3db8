"""Decodes blocks of an Avro file to columns, with polars, inside of limits that polars does not have.

    the file's schema ──> a schema of our own for the same bytes ──┐
    blocks, decompressed within their limit ───────────────────────┴─> polars.read_avro ──> Arrow columns f0, f1 ...

The bytes of a map are the bytes of an array of records, so a map is decoded as such an array; a column of type null
has no bytes and is left out. Fields are named by their number, whatever the names in the file are. Only decimals keep
their logical type, and an int is decoded as a long. A schema that polars would not understand has no columns here;
fastavro decodes its rows.

polars reserves memory for as many rows as a block claims, so a block may claim at most one row for each smallest row
that its bytes could hold. On malformed bytes polars raises an error or panics; a panic is an exception too.
"""

from __future__ import annotations

from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import FormatError
from sealberg.files.avro.container import header_bytes, zigzag
from sealberg.files.avro.values import LOGICAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

# The fewest bytes of a value.
_SMALLEST: Final = {"boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "string": 1, "bytes": 1}
_SYNC: Final = bytes(16)
MAX_DEPTH: Final = 32
MAX_DIGITS: Final = 38


class ColumnDecoder:
    """Decodes blocks of files with one schema.

    Args:
        schema: the record of the file, flattened (see values.py).
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._made = _SchemaMaker()
        self._schema, self._row_bytes = self._made.record(schema, 0)

    @property
    def possible(self) -> bool:
        """Whether polars can decode the schema."""
        return not self._made.strange and self._row_bytes > 0

    @cached_property
    def _head(self) -> bytes:
        return header_bytes(self._schema, "null", {}, _SYNC)

    def decode(self, blocks: Sequence[tuple[int, bytes]], fields: Iterable[int]) -> pa.Table:
        """The columns `f<number>` of these fields, from pairs (claimed rows, plain bytes)."""
        import polars as pl
        from polars.exceptions import PanicException, PolarsError

        claimed, pieces = 0, [self._head]
        for rows, plain in blocks:
            if rows * self._row_bytes > len(plain):
                raise FormatError(f"a block of an Avro file claims {rows} rows in {len(plain)} bytes")
            claimed += rows
            pieces += (zigzag(rows), zigzag(len(plain)), plain, _SYNC)
        container = b"".join(pieces)
        try:
            frame = pl.read_avro(BytesIO(container), columns=[f"f{number}" for number in fields])
        except (PanicException, PolarsError, OSError, ValueError, OverflowError) as error:
            # The message is not shown: it may quote the file.
            raise FormatError(f"a block of an Avro file does not decode ({type(error).__name__})") from None
        if frame.height != claimed:
            raise FormatError(f"blocks of an Avro file hold {frame.height} rows, their headers claim {claimed}")
        return frame.to_arrow()


class _SchemaMaker:
    """Makes the schema for polars, with the fewest bytes of a value; notes what polars would not understand."""

    def __init__(self) -> None:
        self.strange = False
        self._count = 0

    def record(self, schema: dict[str, Any], depth: int) -> tuple[dict[str, Any], int]:
        fields, size = [], 0
        for number, field in enumerate(schema["fields"]):
            if field["type"] == "null":
                continue
            kind, least = self._type(field["type"], depth + 1)
            fields.append({"name": f"f{number}", "type": kind})
            size += least
        self._count += 1
        self.strange |= not fields
        return {"type": "record", "name": f"r{self._count}", "fields": fields}, size

    def _type(self, schema: Any, depth: int) -> tuple[Any, int]:
        name = schema.get("type") if isinstance(schema, dict) else schema
        if depth > MAX_DEPTH:
            return self._refuse()
        if isinstance(schema, list):
            return self._union(schema, depth)
        if isinstance(name, str) and name in _SMALLEST:
            # An int has the bytes of a long; polars reads an int that is too large as another number.
            return "long" if name == "int" else name, _SMALLEST[name]
        if not isinstance(schema, dict):
            return self._refuse()
        return self._complex(name, schema, depth)

    def _complex(self, name: Any, schema: dict[str, Any], depth: int) -> tuple[Any, int]:
        match name:
            case "record":
                return self.record(schema, depth)
            case "array":
                return self._array(schema["items"], depth)
            case "map":
                fields = [{"type": "string"}, {"type": schema["values"]}]
                return self._array({"type": "record", "fields": fields}, depth)
            case "fixed":
                return self._fixed(schema)
        return self._refuse()

    def _union(self, branches: list[Any], depth: int) -> tuple[Any, int]:
        others = [branch for branch in branches if branch != "null"]
        if len(branches) != 2 or len(others) != 1 or isinstance(others[0], list):
            return self._refuse()
        kind, _ = self._type(others[0], depth + 1)
        return [branch if branch == "null" else kind for branch in branches], 1

    def _array(self, items: Any, depth: int) -> tuple[Any, int]:
        if items == "null":
            return self._refuse()
        kind, least = self._type(items, depth + 1)
        self.strange |= least == 0  # a block of such items could claim any number of them
        return {"type": "array", "items": kind}, 1

    def _fixed(self, schema: dict[str, Any]) -> tuple[Any, int]:
        size, precision, scale = schema.get("size"), schema.get("precision"), schema.get("scale", 0)
        if not isinstance(size, int) or not 0 < size < 1 << 20:
            return self._refuse()
        self._count += 1
        made: dict[str, Any] = {"type": "fixed", "name": f"x{self._count}", "size": size}
        if schema.get(LOGICAL) == "decimal":
            if size > 16 or not _is_decimal(precision, scale):
                return self._refuse()
            made |= {"logicalType": "decimal", "precision": precision, "scale": scale}
        return made, size

    def _refuse(self) -> tuple[Any, int]:
        self.strange = True
        return "null", 0


def _is_decimal(precision: Any, scale: Any) -> bool:
    return isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= MAX_DIGITS
