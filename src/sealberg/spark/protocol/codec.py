"""A message as JSON and back, by the types of its fields. Java's `MessageCodec` follows the same rules.

    class TableHandle(Message)          {"table": ["hr", "pay"],
        table: tuple[str, ...]           "schema-id": 0,
        schema_id: int                   "branch": "audit"}
        branch: str | None = None       left out where it is None

    str int float bool      as in JSON; an int is not a float, a bool is not an int
    bytes                   base64
    tuple[X, ...]           an array; Columns[X]: an object with one array for each field of X
    Mapping[str, X]         an object with any names
    a Message               an object with exactly the fields of the class
    A | B                   one of several messages, told apart by "type", which is the TAG of the class
    Struct, SparkType       Spark's own JSON of a schema and of a type
    Scalar                  a value of a column: null, a boolean, a number, a string or {"decimal": "1.50"}
    Value                   any JSON: the values of metadata tables, which `arrow_json` encodes

A field that is unknown, missing or of another type is a ProtocolError that names the message and the field. The error
never quotes a value: values may be keys.
"""

from __future__ import annotations

import base64
import binascii
import re
import types
from collections.abc import Sequence
from dataclasses import MISSING, fields
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sealberg.errors import SealbergError
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
TYPE: Final = "type"  # the field that tells messages of a union apart

Struct = Annotated[dict[str, Any], "struct"]
SparkType = Annotated[Any, "spark-type"]
Scalar = Annotated[Any, "scalar"]
Value = Annotated[Any, "value"]
Columns = Annotated[tuple[T, ...], "columns"]


class ProtocolError(SealbergError):
    """A message that the other side wrote differently: the jar and the Python package are of different versions."""


class Message:
    """What crosses between the JVM and Python; subclasses are frozen dataclasses."""

    TAG: ClassVar[str] = ""

    def to_json(self) -> dict[str, Any]:
        return _form(type(self)).encode(self)

    @classmethod
    def from_json(cls, document: object) -> Self:
        message: Self = _form(cls).decode(document)
        return message


class MessageColumns(Sequence[T]):
    """Many messages of one class that were never made: one list for each field. Whoever looks at one makes it."""

    def __init__(self, kind: type[T], columns: Mapping[str, Sequence[Any]]) -> None:
        self._kind = kind
        self.columns = {field.name: columns[field.name] for field in fields(kind)}  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self[number] for number in range(*at.indices(len(self))))
        return self._kind(**{name: values[at] for name, values in self.columns.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"MessageColumns({self._kind.__name__}, {len(self)})"


def encode(kind: Any, value: Any) -> Any:
    """A value of this type as JSON."""
    return _codec(kind).encode(value)


def kebab(name: str) -> str:
    """TableHandle as table-handle, schema_id as schema-id."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).replace("_", "-").lower()


class _Codec(NamedTuple):
    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]  # of a value that stands at a place, "TableHandle.schema-id"


class _Field(NamedTuple):
    name: str
    key: str
    optional: bool
    codec: _Codec


class _Form(NamedTuple):
    """A class of messages, as JSON has it."""

    kind: type[Message]
    fields: Sequence[_Field]

    def encode(self, message: Message) -> dict[str, Any]:
        document: dict[str, Any] = {TYPE: self.kind.TAG} if self.kind.TAG else {}
        for field in self.fields:
            value = getattr(message, field.name)
            if value is not None or not field.optional:
                document[field.key] = field.codec.encode(value)
        return document

    def decode(self, document: object) -> Any:
        name = self.kind.__name__
        if not isinstance(document, dict):
            raise _wrong(name, "an object", document)
        if self.kind.TAG:
            if document.get(TYPE) != self.kind.TAG:
                raise _different(f"{name}.{TYPE} is not {self.kind.TAG}")
            document = {key: value for key, value in document.items() if key != TYPE}
        self._check_names(document)
        values = {
            field.name: field.codec.decode(document[field.key], f"{name}.{field.key}")
            for field in self.fields
            if field.key in document
        }
        return self.kind(**values)

    def _check_names(self, document: Mapping[str, Any]) -> None:
        known = [field.key for field in self.fields]
        if unknown := [key for key in document if key not in known]:
            raise _different(f"{self.kind.__name__} has an unknown field {unknown[0]}; known are {', '.join(known)}")
        if missing := [field.key for field in self.fields if not field.optional and field.key not in document]:
            raise _different(f"{self.kind.__name__} lacks the field {missing[0]}")

    # -- many messages of one class --------------------------------------------------------------

    def encode_columns(self, messages: Sequence[Message]) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        made = messages.columns if isinstance(messages, MessageColumns) else None
        for field in self.fields:
            values = list(map(attrgetter(field.name), messages)) if made is None else made[field.name]
            if field.optional and all(value is None for value in values):
                continue
            encode = field.codec.encode
            columns[field.key] = (
                values if encode is _same else [None if value is None else encode(value) for value in values]
            )
        return columns

    def decode_columns(self, columns: object, where: str) -> tuple[Any, ...]:
        if not isinstance(columns, dict) or not all(isinstance(column, list) for column in columns.values()):
            raise _wrong(where, "an object of arrays", columns)
        self._check_names(columns)
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise _different(f"{where} has columns of different lengths")
        documents = [
            {key: column[number] for key, column in columns.items() if column[number] is not None}
            for number in range(lengths.pop())
        ]
        return tuple(self.decode(document) for document in documents)


_FORMS: Final[dict[type[Message], _Form]] = {}


def _form(kind: type[Message]) -> _Form:
    if kind not in _FORMS:
        _FORMS[kind] = _formed(kind)
    return _FORMS[kind]


def _formed(kind: type[Message]) -> _Form:
    hints = get_type_hints(kind, include_extras=True)
    return _Form(
        kind,
        [
            _Field(
                field.name, kebab(field.name), field.default is not MISSING, _codec(_without_none(hints[field.name]))
            )
            for field in fields(kind)  # type: ignore[arg-type]
        ],
    )


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    left = tuple(kind for kind in get_args(hint) if kind is not types.NoneType)
    return left[0] if len(left) == 1 else Union[left]  # noqa: UP007 (of a tuple)


# -- one codec for each type ------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _codec(hint: Any) -> _Codec:  # noqa: PLR0911 (one a type)
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is None or hint is types.NoneType:
        return _Codec(_same, _checked("null", lambda value: value is None))
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1])
    if origin is Literal:
        return _Codec(_same, _checked(" or ".join(arguments), lambda value: value in arguments))
    if origin is tuple:
        return _array(_codec(arguments[0]))
    if origin in (Union, types.UnionType):
        return _union([kind for kind in arguments if kind is not types.NoneType])
    if origin is not None:  # Mapping[str, X]
        return _mapping(_codec(arguments[1]))
    if issubclass(hint, Message):
        return _Codec(lambda message: message.to_json(), lambda value, _: hint.from_json(value))
    return _PLAIN[hint]


def _annotated(hint: Any, mark: str) -> _Codec:
    if mark == "columns":
        (kind, _) = get_args(hint)
        return _Codec(
            lambda messages: _form(kind).encode_columns(messages),
            lambda value, where: _form(kind).decode_columns(value, where),
        )
    return _MARKED[mark]


def _array(inner: _Codec) -> _Codec:
    def decode(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong(where, "an array", value)
        return tuple(inner.decode(item, where) for item in value)

    return _Codec(lambda items: [inner.encode(item) for item in items], decode)


def _mapping(inner: _Codec) -> _Codec:
    def decode(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        return {key: inner.decode(item, f"{where}.{key}") for key, item in value.items()}

    return _Codec(lambda items: {key: inner.encode(item) for key, item in items.items()}, decode)


def _union(kinds: Sequence[type[Message]]) -> _Codec:
    by_tag = {kind.TAG: kind for kind in kinds}

    def decode(value: Any, where: str) -> Message:
        kind = by_tag.get(value.get(TYPE, "")) if isinstance(value, dict) else None
        if kind is None:
            raise _different(f"{where} is none of the types {', '.join(by_tag)}")
        return kind.from_json(value)

    return _Codec(lambda message: message.to_json(), decode)


def _checked(expected: str, fits: Callable[[Any], bool]) -> Callable[[Any, str], Any]:
    def decode(value: Any, where: str) -> Any:
        if not fits(value):
            raise _wrong(where, expected, value)
        return value

    return decode


def _bytes(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _different(f"{where} is not base64") from None


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _scalar(value: Any, where: str) -> Any:
    if isinstance(value, dict) and value.keys() == {"decimal"}:
        try:
            return Decimal(value["decimal"])
        except (InvalidOperation, TypeError, ValueError):
            raise _different(f"{where} is not a decimal") from None
    if isinstance(value, dict | list):
        raise _wrong(where, "null, a boolean, a number, a string or a decimal", value)
    return value


_PLAIN: Final[dict[Any, _Codec]] = {
    str: _Codec(_same, _checked("a string", lambda value: isinstance(value, str))),
    bool: _Codec(_same, _checked("a boolean", lambda value: isinstance(value, bool))),
    int: _Codec(
        _same, _checked("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
    ),
    float: _Codec(_same, _checked("a number", lambda value: type(value) in (int, float))),
    bytes: _Codec(_base64, _bytes),
}
_MARKED: Final = {
    "struct": _Codec(
        _same, _checked("a schema", lambda value: isinstance(value, dict) and value.get("type") == "struct")
    ),
    "spark-type": _Codec(_same, _checked("a type of Spark", lambda value: isinstance(value, str | dict))),
    "scalar": _Codec(lambda value: {"decimal": str(value)} if isinstance(value, Decimal) else value, _scalar),
    "value": _Codec(_same, lambda value, _: value),
}


def _wrong(where: str, expected: str, found: object) -> ProtocolError:
    return _different(f"{where} is not {expected} but a {type(found).__name__}")


def _different(message: str) -> ProtocolError:
    return ProtocolError(f"{message}: the jar and sealberg {__version__} must be of one version")
