"""The changes of an ALTER TABLE, by the names of Spark's `TableChange`."""

from dataclasses import dataclass
from typing import ClassVar

from sealberg.spark.protocol.codec import Message, SparkType


@dataclass(frozen=True)
class SetProperty(Message):
    TAG: ClassVar[str] = "set-property"
    name: str
    value: str


@dataclass(frozen=True)
class RemoveProperty(Message):
    TAG: ClassVar[str] = "remove-property"
    name: str


@dataclass(frozen=True)
class ColumnPosition(Message):
    """FIRST, or AFTER a column of the same struct."""

    after: str | None = None


@dataclass(frozen=True)
class AddColumn(Message):
    """`default_sql` is the expression of DEFAULT."""

    TAG: ClassVar[str] = "add-column"
    column: tuple[str, ...]
    data_type: SparkType
    nullable: bool
    comment: str | None = None
    default_sql: str | None = None
    position: ColumnPosition | None = None


@dataclass(frozen=True)
class RenameColumn(Message):
    TAG: ClassVar[str] = "rename-column"
    column: tuple[str, ...]
    name: str


@dataclass(frozen=True)
class DeleteColumn(Message):
    TAG: ClassVar[str] = "delete-column"
    column: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True)
class UpdateColumnType(Message):
    TAG: ClassVar[str] = "update-column-type"
    column: tuple[str, ...]
    data_type: SparkType


@dataclass(frozen=True)
class UpdateColumnNullability(Message):
    TAG: ClassVar[str] = "update-column-nullability"
    column: tuple[str, ...]
    nullable: bool


@dataclass(frozen=True)
class UpdateColumnComment(Message):
    TAG: ClassVar[str] = "update-column-comment"
    column: tuple[str, ...]
    comment: str | None = None


@dataclass(frozen=True)
class UpdateColumnPosition(Message):
    TAG: ClassVar[str] = "update-column-position"
    column: tuple[str, ...]
    position: ColumnPosition


@dataclass(frozen=True)
class UnsupportedChange(Message):
    """A change of Spark's that sealberg does not know; `name` is that of its Java class."""

    TAG: ClassVar[str] = "unsupported"
    name: str


ColumnChange = (
    AddColumn
    | RenameColumn
    | DeleteColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnPosition
    | UnsupportedChange
)
TableChange = SetProperty | RemoveProperty | ColumnChange
