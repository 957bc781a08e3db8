"""How tasks reach the files of a table. The settings are secrets: they go to the tasks of one query, as keys do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.codec import Message
from sealberg.spark.protocol.handles import TableHandle


@dataclass(frozen=True)
class StoreSettings(Message):
    """Hadoop's settings of one kind of store.

    Args:
        prefix: of the names of all settings of this kind of store, fs.s3a. for instance.
        settings: without credentials.
        credentials: left out where the user of Spark has set one of `credential_names`.
        credential_names: every setting by which a user could give credentials.
    """

    prefix: str
    settings: Mapping[str, str]
    credentials: Mapping[str, str]
    credential_names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"StoreSettings({self.prefix!r})"  # no secret in a log


@dataclass(frozen=True)
class StorageSettings(Message):
    """The settings of a table's stores; `expires_at_ms` is when the credentials end, if they do."""

    stores: tuple[StoreSettings, ...]
    expires_at_ms: int | None = None


@dataclass(frozen=True)
class RefreshStorage(Request):
    """A task whose credentials end soon asks for new ones."""

    handle: TableHandle
    ANSWER: ClassVar[Any] = StorageSettings
