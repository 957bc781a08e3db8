"""The outcome of a statement as a text that is the same in every run.

Words("ours", "dml").table(schema, rows)     "id bigint, name string | (1, 'a') | (2, NULL)"
refusal(error)                               "refused: TABLE_OR_VIEW_NOT_FOUND", "refused: ConfigError",
                                             "crashed: NullPointerException"

in columns of this name     is written
...snapshot_id, parent_id   snapshot 1, snapshot 2, in the order of their appearance
times of the last day       TIME
...size, ...length          SIZE, if above zero
paths                       the part after the table's folder, without the name of the file
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from decimal import Decimal
from getpass import getuser
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.types import StructType

CRASHES: Final = re.compile(
    r"NullPointer|ClassCast|IllegalState|OutOfBounds|NoSuchElement|MatchError|INTERNAL_ERROR"
    r"|\b(Type|Key|Attribute|Index|Assertion|Recursion|Overflow|Unicode\w*|ZeroDivision|StopIteration)Error"
)
IDS: Final = re.compile(r".*snapshot.id|parent_id|previous_ref|updated_ref")
SIZES: Final = re.compile(r".*(size|length|_in_bytes|bytes_count)")
PATH: Final = re.compile(r"(?:file:)?/[^ ,'\"]*?/(data|metadata)/([^ ,'\"]*/)?[^ ,'\"/]+?(\.[a-z.]+)(?=[ ,'\"]|$)")
PYTHON: Final = re.compile(r"(?:^|: )([A-Z]\w*(?:Error|Exception)): ")
JAVA: Final = re.compile(r"([\w.]+\.)?(\w+(?:Exception|Error))")


@dataclass
class Words:
    """Replacements for values that differ from run to run, in one chapter on one catalog."""

    catalog: str
    namespace: str
    snapshots: dict[int, str] = field(default_factory=dict)

    def table(self, schema: StructType, rows: Iterable[Any], *, ordered: bool) -> str:
        """The columns and the rows as text."""
        columns = ", ".join(
            f"{one.name} {one.dataType.simpleString()}{'' if one.nullable else ' not null'}" for one in schema
        )
        found = [self._row(schema.names, row) for row in rows]
        return " | ".join([columns, *(found if ordered else sorted(found))])

    def _row(self, names: Iterable[str], row: Iterable[Any]) -> str:
        return f"({', '.join(self._value(value, name) for name, value in zip(names, row, strict=True))})"

    def _value(self, value: Any, name: str) -> str:
        match value:
            case None:
                return "NULL"
            case int() if IDS.fullmatch(name) and not isinstance(value, bool):
                return self.snapshots.setdefault(value, f"snapshot {len(self.snapshots) + 1}")
            case int() if SIZES.fullmatch(name) and value > 0:
                return "SIZE"
            case dt.datetime() if abs(value.replace(tzinfo=None) - dt.datetime.now()) < dt.timedelta(days=1):  # noqa: DTZ005
                return "TIME"
            case dt.datetime() | dt.date() | dt.time() | Decimal():
                return str(value)
            case bytearray() | bytes():
                return f"X'{value.hex()}'"
            case str():
                return "SIZE" if SIZES.fullmatch(name) and value.isdigit() else repr(self._text(value))
            case dict():
                pairs = sorted((self._value(key, ""), self._value(one, str(key))) for key, one in value.items())
                return f"{{{', '.join(f'{key}: {one}' for key, one in pairs)}}}"
            case list():
                return f"[{', '.join(self._value(one, name) for one in value)}]"
            case tuple():
                return self._row(getattr(value, "__fields__", [name] * len(value)), value)
            case _:
                return repr(value)

    def _text(self, text: str) -> str:
        text = PATH.sub(lambda path: f"{path[1]}/{path[2] or ''}*{path[3]}", text)
        text = re.sub(rf"(?:file:)?/[^\s,'\"]*/{self.namespace}\b", "WAREHOUSE", text)
        text = "USER" if text == getuser() else text
        return text.replace(f"{self.catalog}.{self.namespace}", "NS").replace(self.catalog, "CATALOG")


def refusal(error: Exception) -> str:
    """Spark's error condition or the name of the exception; `crashed` for an unexpected exception."""
    from pyspark.errors import AnalysisException, ParseException

    text = str(error)
    condition = getattr(error, "getCondition", lambda: None)() or ""
    java = getattr(error, "java_exception", None)
    if java is not None:
        while java.getCause() is not None:
            java = java.getCause()
        text = java.toString()
        condition = condition if java.getClass().getName().startswith("org.apache.spark") else ""
    name = condition.removeprefix("_LEGACY_ERROR_TEMP_") or _named(text) or type(error).__name__
    if CRASHES.search(f"{name} {text[:300]}" if not condition else name):
        return f"crashed: {name}"
    early = condition and isinstance(error, AnalysisException | ParseException)
    return f"refused: {name}{', by analysis' if early else ''}"


def _named(text: str) -> str:
    found = PYTHON.search(text) or JAVA.search(text)
    return found[found.lastindex or 0] if found else ""
