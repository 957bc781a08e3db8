"""Glue catalogs: tables in the AWS Glue Data Catalog, with the same parameters as in Hive.

A commit names the `VersionId` of the table that it is based on, and Glue refuses the commit if there is a newer one.
Iceberg Java 1.12 does not encrypt in Glue and would write plaintext, so do not let it write to these tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.catalog.glue import GLUE_SKIP_ARCHIVE, GlueCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)

from sealberg.catalogs.base import dotted
from sealberg.catalogs.commit_status import resolve_commit
from sealberg.catalogs.metastore import EncryptedMetastore
from sealberg.catalogs.table_parameters import moved, pointer, vouched
from sealberg.errors import UnsupportedError
from sealberg.pyiceberg_private import glue_table_input

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.catalogs.base import Name, NewTable
    from sealberg.catalogs.metastore import Version
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.metadata.trust import Trust
    from sealberg.write.commit_outcome import CommitAttempt

# The fields of a Glue table that a TableInput may have; Glue sets the others (times, version, creator) itself.
INPUT: Final = (
    "Name",
    "Description",
    "Owner",
    "LastAccessTime",
    "LastAnalyzedTime",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "TableType",
    "Parameters",
)


class EncryptedGlueCatalog(EncryptedMetastore, GlueCatalog):
    """PyIceberg's GlueCatalog with encrypted tables."""

    def _name(self, identifier: str | Identifier) -> Name:
        return self.identifier_to_database_and_table(identifier, NoSuchTableError)

    def _new_name(self, identifier: str | Identifier) -> Name:
        return self.identifier_to_database_and_table(identifier)

    def _get(self, name: Name) -> Any:
        try:
            return self.glue.get_table(DatabaseName=name[0], Name=name[1])["Table"]
        except self.glue.exceptions.EntityNotFoundException as error:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}") from error

    # -- the pointer and what is vouched for --------------------------------------------------

    def _pointer(self, name: Name) -> tuple[str, Trust | None]:
        return pointer(name, self._get(name).get("Parameters", {}))

    def _place(self, new: NewTable) -> str | None:
        name = self._new_name(new.identifier)
        if new.is_v3 or not self._is_s3tables_database(name[0]):
            return super()._place(new)
        return new.location  # S3 Tables gives each of its tables a bucket of its own

    def _new(self, name: Name, new: NewTable) -> V3TableMetadata:
        metadata = super()._new(name, new)
        if self._is_s3tables_database(name[0]):
            raise UnsupportedError(
                f"cannot create the encrypted table {dotted(name)}: {name[0]} is an S3 Tables database, and S3 Tables "
                "creates its tables itself, without encryption keys"
            )
        return metadata

    def _enter(self, name: Name, version: Version, attempt: CommitAttempt) -> None:
        with attempt.not_applied():
            table = glue_table_input(name[1], version.location, version.metadata)
            table["Parameters"] = moved({}, version)
        try:
            self.glue.create_table(DatabaseName=name[0], TableInput=table)
        except self.glue.exceptions.EntityNotFoundException as error:
            with attempt.not_applied():
                raise NoSuchNamespaceError(f"Namespace does not exist: {name[0]}") from error
        except self.glue.exceptions.AlreadyExistsException as error:
            # The SDK repeats a request whose response was lost; the first one may have created this table.
            if self._pointer(name)[0] != version.location:
                with attempt.not_applied():
                    raise TableAlreadyExistsError(f"Table {dotted(name)} already exists") from error
        except (ClientError, BotoCoreError) as error:
            self._settle(name, version, error, attempt)

    def _swap(self, name: Name, old: str, version: Version, gone: frozenset[str], attempt: CommitAttempt) -> None:
        with attempt.not_applied():
            before = self._get(name)
            parameters = before.get("Parameters", {})
            if pointer(name, parameters)[0] != old:
                raise CommitFailedException(f"Table has been updated by another process: {dotted(name)}")
            table = glue_table_input(name[1], version.location, version.metadata)
            table = {**_input(before), **table, "Parameters": moved(parameters, version, old=old, gone=gone)}
        try:
            self._update(name, table, before)
        except self.glue.exceptions.EntityNotFoundException as error:
            with attempt.not_applied():
                raise NoSuchTableError(f"Table does not exist: {dotted(name)}") from error
        except self.glue.exceptions.ConcurrentModificationException as error:
            resolve_commit(self, name, version, error, over=True)
        except (ClientError, BotoCoreError) as error:
            self._settle(name, version, error, attempt)

    def _settle(self, name: Name, version: Version, error: ClientError | BotoCoreError, attempt: CommitAttempt) -> None:
        if isinstance(error, ClientError) and _refused(error):
            with attempt.not_applied():
                raise ValidationException(f"Glue refuses {dotted(name)}: {error}") from error
        resolve_commit(self, name, version, error, over=False)

    def _vouch(self, name: Name, accepted: Trust) -> bool:
        before = self._get(name)
        parameters = before.get("Parameters", {})
        if pointer(name, parameters)[0] != accepted.metadata_location:
            return False
        try:
            self._update(name, {**_input(before), "Parameters": vouched(parameters, accepted)}, before)
        except self.glue.exceptions.ConcurrentModificationException:
            return False
        return True

    def _update(self, name: Name, table: dict[str, Any], before: Any) -> None:
        skip = self.properties.get(GLUE_SKIP_ARCHIVE, "true").lower() == "true"
        self.glue.update_table(DatabaseName=name[0], TableInput=table, SkipArchive=skip, VersionId=before["VersionId"])

    # -- rename -------------------------------------------------------------------------------

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Glue has no rename: create a new entry, then drop the old one unless another process has changed it."""
        old, new = self._name(from_identifier), self._name(to_identifier)
        before = self._get(old)
        pointer(old, before.get("Parameters", {}))
        self._admit_renamed(from_identifier, to_identifier)
        try:
            self.glue.create_table(DatabaseName=new[0], TableInput={**_input(before), "Name": new[1]})
        except self.glue.exceptions.AlreadyExistsException as error:
            raise TableAlreadyExistsError(f"Table {dotted(new)} already exists") from error
        except self.glue.exceptions.EntityNotFoundException as error:
            raise NoSuchNamespaceError(f"Namespace does not exist: {new[0]}") from error
        if self._get(old)["VersionId"] != before["VersionId"]:
            self.drop_table(to_identifier)
            raise CommitFailedException(f"Table has been updated by another process: {dotted(old)}")
        self.drop_table(from_identifier)
        return self.load_table(to_identifier)


def _input(table: Any) -> dict[str, Any]:
    return {name: table[name] for name in INPUT if name in table}


def _refused(error: ClientError) -> bool:
    """Whether Glue has responded that it did not apply the request: the request was wrong or not allowed."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    retried = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
    return 400 <= status < 500 and not retried
