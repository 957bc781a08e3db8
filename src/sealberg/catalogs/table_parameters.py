"""The table parameters that Hive and Glue keep for an encrypted table, with Java's names.

    metadata_location             the location of the metadata; previous_metadata_location: of the version before
    encryption.key-id             a property of the table; all properties are parameters
    encryption.data-key-length    a property of the table
    metadata_hash                 SHA-256 of the metadata, in Java's form

One alter changes all of them together. Whoever can alter the table is trusted; the storage is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.catalog import ICEBERG, METADATA_LOCATION, PREVIOUS_METADATA_LOCATION, TABLE_TYPE
from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchPropertyException

from sealberg.catalogs.base import dotted
from sealberg.keys.file_key import KEY_LENGTH_PROPERTY
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.catalogs.base import Name
    from sealberg.catalogs.metastore import Version

METADATA_HASH: Final = "metadata_hash"


def pointer(name: Name, parameters: Mapping[str, str]) -> tuple[str, Trust | None]:
    """The metadata location and the trust; PyIceberg's errors if the table is no Iceberg table."""
    kind = parameters.get(TABLE_TYPE)
    if kind is None or kind.lower() != ICEBERG:  # Hive's own tables have none
        raise NoSuchIcebergTableError(f"Property table_type is {kind}, expected {ICEBERG}: {dotted(name)}")
    location = parameters.get(METADATA_LOCATION)
    if not location:
        raise NoSuchPropertyException(f"Table property {METADATA_LOCATION} is missing: {dotted(name)}")
    key_id = parameters.get(KEY_ID_PROPERTY)
    if key_id is None:
        return location, None
    return location, Trust(key_id, parameters.get(KEY_LENGTH_PROPERTY), location, parameters.get(METADATA_HASH) or None)


def moved(
    before: Mapping[str, str], version: Version, *, old: str | None = None, gone: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The parameters after a commit: those of this version, and those of other tools except removed properties."""
    kept = {key: value for key, value in before.items() if key not in gone}
    return {
        **vouched({**kept, **version.metadata.properties}, version.trust),
        TABLE_TYPE: ICEBERG.upper(),
        METADATA_LOCATION: version.location,
        **({PREVIOUS_METADATA_LOCATION: old} if old else {}),
    }


def vouched(parameters: Mapping[str, str], trust: Trust | None) -> dict[str, str]:
    """The parameters with this trust instead of an earlier one."""
    names = (KEY_ID_PROPERTY, KEY_LENGTH_PROPERTY, METADATA_HASH)
    known = (trust.key_id, trust.key_length, trust.metadata_hash) if trust is not None else (None,) * len(names)
    out = {key: value for key, value in parameters.items() if key not in names}
    return out | {key: value for key, value in zip(names, known, strict=True) if value is not None}
