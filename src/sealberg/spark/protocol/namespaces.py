"""SHOW, CREATE, ALTER, DESCRIBE and DROP NAMESPACE; SHOW TABLES."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sealberg.spark.protocol.calls import Request


@dataclass(frozen=True)
class ListTables(Request):
    """The answer has the last part of each name."""

    namespace: tuple[str, ...]
    ANSWER: ClassVar[Any] = tuple[str, ...]


@dataclass(frozen=True)
class ListNamespaces(Request):
    namespace: tuple[str, ...]
    ANSWER: ClassVar[Any] = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class LoadNamespace(Request):
    """The answer has the properties of the namespace."""

    namespace: tuple[str, ...]
    ANSWER: ClassVar[Any] = Mapping[str, str]


@dataclass(frozen=True)
class CreateNamespace(Request):
    namespace: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class AlterNamespace(Request):
    namespace: tuple[str, ...]
    updates: Mapping[str, str]
    removals: tuple[str, ...]


@dataclass(frozen=True)
class DropNamespace(Request):
    """The answer says whether there was such a namespace."""

    namespace: tuple[str, ...]
    cascade: bool
    ANSWER: ClassVar[Any] = bool
