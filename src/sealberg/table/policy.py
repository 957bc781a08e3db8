"""What the operator's configuration demands of the tables of a catalog: which are encrypted, and under which key.

    encryption.required                       true, or a comma-separated list of namespaces
    encryption.default-key-id                 the key of new tables that name none
    encryption.default-key-id.NAMESPACE       the same for a namespace and the namespaces below it
    encryption.expected-key-id.NAMESPACE.T    the key that table T must have
    table-default.*, table-override.*         properties of new tables, as in Iceberg Java

    create ──> properties_of_new ──> admit ──> the catalog makes the table
    load   ──> check_expected                  reading a plaintext table stays allowed
    write  ──> refuse_write ─────────────────> files, commit

The policy comes from the configuration only, never from table metadata or from a REST server. Names of namespaces and
tables are compared in lower case, because PyIceberg's configuration keeps the names of properties in lower case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from sealberg.errors import ConfigError, EncryptionRequiredError, TrustError
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.invariants import ENCRYPTION_PREFIX, VERSION_PROPERTY
from sealberg.properties.catalog_names import CATALOG_PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyiceberg.table.metadata import TableMetadata

REQUIRED: Final = "encryption.required"
DEFAULT_KEY_ID: Final = "encryption.default-key-id"
EXPECTED_KEY_ID: Final = "encryption.expected-key-id."
TABLE_DEFAULT: Final = "table-default."
TABLE_OVERRIDE: Final = "table-override."
KNOWN: Final = tuple(known.name for known in CATALOG_PROPERTIES if known.name.startswith(ENCRYPTION_PREFIX))
NAMESPACE: Final = re.compile(r"[^\s\[\]{}'\",.]+(\.[^\s\[\]{}'\",.]+)*")

Name = tuple[str, ...]  # of a table: its namespace, and its own name last


@dataclass(frozen=True)
class EncryptionPolicy:
    """What one catalog's configuration says about encryption."""

    everywhere: bool = False
    namespaces: tuple[str, ...] = ()
    default_key_id: tuple[str, str] | None = None  # and the property that says so
    namespace_key_ids: Mapping[str, str] = field(default_factory=dict)
    expected_key_ids: Mapping[str, str] = field(default_factory=dict)
    table_defaults: Mapping[str, str] = field(default_factory=dict)
    table_overrides: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Self:
        """The policy of a catalog's configured properties; unknown and contradictory properties are refused."""
        given = {name: value for name, value in properties.items() if isinstance(value, str)}
        _refuse_unknown(given)
        everywhere, namespaces = _required(given.get(REQUIRED))
        defaults = _under(given, TABLE_DEFAULT)
        default = _catalog_wide(given.get(DEFAULT_KEY_ID), defaults.pop(KEY_ID_PROPERTY, None))
        return cls(
            everywhere,
            namespaces,
            default,
            {name.lower(): value for name, value in _under(given, f"{DEFAULT_KEY_ID}.").items()},
            {name.lower(): value for name, value in _under(given, EXPECTED_KEY_ID).items()},
            defaults,
            _under(given, TABLE_OVERRIDE),
        )

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Every master key that the configuration names, each once."""
        default = self.default_key_id[0] if self.default_key_id is not None else None
        one = (default, self.table_overrides.get(KEY_ID_PROPERTY))
        several = (*self.namespace_key_ids.values(), *self.expected_key_ids.values())
        return tuple(dict.fromkeys(key_id for key_id in (*one, *several) if key_id is not None))

    # -- new tables -----------------------------------------------------------------------------

    def properties_of_new(
        self, name: Name, given: Mapping[str, str], namespace_key_id: Callable[[Name], str | None]
    ) -> dict[str, str]:
        """The properties of a new table: those of its creator and those of the configuration.

        Args:
            name: the name of the table.
            given: the properties that the creator sets.
            namespace_key_id: gives the `encryption.key-id` property of a namespace, or None if the catalog is not
                trusted to choose keys.
        """
        properties = self.bound(name, {**self.table_defaults, **given})
        if KEY_ID_PROPERTY not in properties and (found := self._key_id(name[:-1], namespace_key_id)) is not None:
            properties[KEY_ID_PROPERTY], source = found
            version = given.get(VERSION_PROPERTY)
            if version is not None and str(version) != "3":
                raise ConfigError(
                    f"table {'.'.join(name)} cannot be created with format version {version}: {source} says that it is "
                    f"encrypted under the key {found[0]}, and encrypted tables have format version 3"
                )
        if KEY_ID_PROPERTY in properties and VERSION_PROPERTY not in given:
            properties.pop(VERSION_PROPERTY, None)  # the key id overrides a default version: encrypted tables have 3
        return properties

    def bound(self, name: Name, given: Mapping[str, str]) -> dict[str, str]:
        """These properties of a table that is about to be made, with those that the configuration overrides.

        ConfigError if an override names another key, or another length of keys.
        """
        _refuse_overridden(".".join(name), given, self.table_overrides)
        return {**given, **self.table_overrides}

    def _key_id(self, namespace: Name, namespace_key_id: Callable[[Name], str | None]) -> tuple[str, str] | None:
        """The key of new tables of a namespace, from the nearest namespace that has a key, and where it is set."""
        for length in range(len(namespace), 0, -1):
            parent = ".".join(namespace[:length])
            if (key_id := self.namespace_key_ids.get(parent.lower())) is not None:
                return key_id, f"{DEFAULT_KEY_ID}.{parent} of the catalog"
            if (key_id := namespace_key_id(namespace[:length])) is not None:
                return key_id, f"{KEY_ID_PROPERTY} of the namespace {parent}"
        if self.default_key_id is None:
            return None
        return self.default_key_id[0], f"{self.default_key_id[1]} of the catalog"

    def admit(self, name: Name, properties: Mapping[str, str]) -> None:
        """Refuse a table that is about to be made, registered or renamed to this name."""
        table, key_id = ".".join(name), properties.get(KEY_ID_PROPERTY)
        if key_id is None and self.requires(name):
            raise EncryptionRequiredError(
                f"table {table} would not be encrypted, and {self._demand(name)}: give it {KEY_ID_PROPERTY}, or give "
                f"its namespace a key with {DEFAULT_KEY_ID}.{'.'.join(name[:-1])} in the configuration of the catalog"
            )
        expected = self.expected_key_ids.get(table.lower())
        if expected is not None and key_id != expected:
            raise ConfigError(
                f"table {table} must have the {KEY_ID_PROPERTY} {expected}, found {key_id or 'none'}: the "
                f"configuration of the catalog has {EXPECTED_KEY_ID}{table}={expected}"
            )

    # -- tables that are there --------------------------------------------------------------------

    def check_expected(self, name: Name, metadata: TableMetadata, who: str = "the catalog") -> None:
        """Refuse a table with another key than the configuration expects."""
        table = ".".join(name)
        expected, found = self.expected_key_ids.get(table.lower()), metadata.properties.get(KEY_ID_PROPERTY)
        if expected is not None and found != expected:
            raise TrustError(
                f"{who} says that the key id of table {table} is {found or 'none'}, expected {expected}: "
                f"the configuration of the catalog has {EXPECTED_KEY_ID}{table}={expected}"
            )

    def refuse_write(self, name: Name, metadata: TableMetadata) -> None:
        """Refuse to write to a plaintext table where encryption is required."""
        if KEY_ID_PROPERTY not in metadata.properties and self.requires(name):
            raise EncryptionRequiredError(
                f"table {'.'.join(name)} is not encrypted, and {self._demand(name)}: it can be read but not written. "
                f"Create a new table with {KEY_ID_PROPERTY} and copy the rows"
            )

    def speaks_of(self, name: Name) -> bool:
        """Whether `admit` could refuse a table of this name."""
        return self.requires(name) or ".".join(name).lower() in self.expected_key_ids

    def requires(self, name: Name) -> bool:
        return self.everywhere or any(True for _ in self._covering(name))

    def _covering(self, name: Name) -> Iterator[str]:
        namespace = ".".join(name[:-1]).lower()
        return (each for each in self.namespaces if namespace == each or namespace.startswith(f"{each}."))

    def _demand(self, name: Name) -> str:
        value = "true" if self.everywhere else next(self._covering(name))
        return f"the configuration of the catalog has {REQUIRED}={value}"


# -- parsing of the configuration -------------------------------------------------------------------


def _required(text: str | None) -> tuple[bool, tuple[str, ...]]:
    if text is None or text.strip().lower() == "false":
        return False, ()
    if text.strip().lower() == "true":
        return True, ()
    names = tuple(each.strip() for each in text.split(","))
    for name in names:
        if not NAMESPACE.fullmatch(name) or name.lower() in ("true", "false"):
            raise ConfigError(
                f"the catalog property {REQUIRED} must be true, false, or a comma-separated list of namespaces "
                f"(hr,finance), found {text!r}"
            )
    return False, tuple(name.lower() for name in names)


def _catalog_wide(default: str | None, table_default: str | None) -> tuple[str, str] | None:
    if default is not None and table_default is not None and default != table_default:
        raise ConfigError(
            f"{DEFAULT_KEY_ID} is {default}, but {TABLE_DEFAULT}{KEY_ID_PROPERTY} is {table_default}: both set the "
            "key of new tables. Remove one of them"
        )
    if default is not None:
        return default, DEFAULT_KEY_ID
    return None if table_default is None else (table_default, f"{TABLE_DEFAULT}{KEY_ID_PROPERTY}")


def _under(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    found = {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}
    for name, value in found.items():
        about_keys = prefix.startswith(ENCRYPTION_PREFIX) or name == KEY_ID_PROPERTY
        if not name or (about_keys and not value.strip()):
            raise ConfigError(f"the catalog property {prefix}{name} is empty")
    return found


def _refuse_unknown(properties: Mapping[str, str]) -> None:
    """Refuse a misspelt property: `encryption.requried` would require nothing."""
    for name, value in properties.items():
        if name == DEFAULT_KEY_ID and not value.strip():
            raise ConfigError(f"the catalog property {name} is empty, expected a key id")
        known = any(name == each or (each.endswith(".") and name.startswith(each)) for each in KNOWN)
        if name.lower().startswith(ENCRYPTION_PREFIX) and not known:
            names = ", ".join(f"{each}*" if each.endswith(".") else each for each in KNOWN)
            hint = f"; the property for the key of new tables is {DEFAULT_KEY_ID}" if name == KEY_ID_PROPERTY else ""
            raise ConfigError(f"unknown catalog property {name} (known: {names}){hint}")


def _refuse_overridden(table: str, given: Mapping[str, str], overrides: Mapping[str, str]) -> None:
    """An override replaces the creator's property, as in Java; a different key is an error instead."""
    for name in given.keys() & overrides.keys():
        if name.startswith(ENCRYPTION_PREFIX) and given[name] != overrides[name]:
            raise ConfigError(
                f"table {table} cannot have the {name} {given[name]}: {TABLE_OVERRIDE}{name} of the catalog is "
                f"{overrides[name]}"
            )
