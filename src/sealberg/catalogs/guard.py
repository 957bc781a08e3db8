"""Makes a catalog of PyIceberg without support for encryption refuse encrypted tables: it would write plaintext."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from sealberg.errors import LocationError, UnsupportedError
from sealberg.keys.manager import KEY_ID_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.typedef import Identifier

EMPTY: Final[dict[str, str]] = {}


def guarded(catalog: Catalog, kind: str, own: Mapping[str, Any]) -> Catalog:
    """The catalog, with methods that refuse encrypted tables."""
    from sealberg.files.confined_io import exact
    from sealberg.metadata.storage_properties import for_file_io
    from sealberg.table.old_metadata import delete_old_metadata
    from sealberg.table.plain_table import as_plain, restored
    from sealberg.table.policy import EncryptionPolicy
    from sealberg.table.purge import purge

    plain: Any = type(catalog)
    policy = EncryptionPolicy.of(own)

    def refuse(what: str) -> NoReturn:
        raise UnsupportedError(
            f"{what} is encrypted, and encrypted tables in {kind} catalogs are not supported yet. Use a SQL, Hive, "
            "Glue or REST catalog"
        )

    def giving(method: str) -> Any:
        def give(self: Any, identifier: Any, *args: Any, **kwargs: Any) -> Any:
            table = getattr(plain, method)(self, identifier, *args, **kwargs)
            if KEY_ID_PROPERTY in table.metadata.properties:
                refuse(f"table {'.'.join(table.name())}")
            policy.check_expected(table.name(), table.metadata)
            return as_plain(table)

        return give

    def creating(method: str) -> Any:
        def create(self: Any, identifier: Any, *args: Any, **kwargs: Any) -> Any:
            given = kwargs.get("properties") or (args[4] if len(args) > 4 else {})
            name = plain.identifier_to_tuple(identifier)
            properties = policy.properties_of_new(name, given, lambda _: None)
            if KEY_ID_PROPERTY in properties:
                refuse(f"table {'.'.join(name)}")
            policy.admit(name, properties)
            if method != "create_table_if_not_exists":  # that one calls create_table, if there is no such table
                args, kwargs, properties = _placed(self, name, args, kwargs, properties)
            if properties != given:
                args, kwargs = args[:4], {**kwargs, "properties": properties}
            return getattr(plain, method)(self, identifier, *args, **kwargs)

        return create

    def commit_table(self: Any, table: Any, requirements: Any, updates: Any) -> Any:
        from sealberg.metadata.invariants import check_plain_updates
        from sealberg.metadata.version_upgrade import version_first

        policy.refuse_write(table.name(), table.metadata)
        check_plain_updates(table.metadata, updates)
        updates, upgrades = version_first(updates, table.metadata)
        if upgrades:
            raise UnsupportedError(
                f"cannot upgrade table {'.'.join(table.name())} to format version 3: version 3 tables in {kind} "
                "catalogs are not supported yet. Use a SQL, Hive, Glue or REST catalog"
            )
        return plain.commit_table(self, table, requirements, updates)

    def _load_file_io(self: Any, properties: Any = EMPTY, location: str | None = None) -> Any:
        return exact(plain._load_file_io(self, for_file_io(self.properties, properties), location))  # noqa: SLF001

    def _update_and_stage_table(self: Any, current: Any, name: Any, requirements: Any, updates: Any) -> Any:
        staged = plain._update_and_stage_table(self, current, name, requirements, updates)  # noqa: SLF001
        return restored(current, staged, updates)

    def purge_table(self: Any, identifier: Any) -> None:
        purge(self.load_table(identifier), lambda: self.drop_table(identifier), vouched=False)

    def swap_tables(self: Any, first: Any, second: Any, **_: Any) -> NoReturn:  # noqa: ARG001
        raise UnsupportedError(
            f"cannot exchange the names of tables in {kind} catalogs. Use a SQL, Hive, Glue or REST catalog"
        )

    makers = ("create_table", "create_table_if_not_exists", "create_table_transaction", "replace_table_transaction")
    givers = ("load_table", "register_table", "rename_table")
    members: dict[str, Any] = {
        **{name: creating(name) for name in makers if hasattr(plain, name)},
        **{name: giving(name) for name in givers},
        "commit_table": commit_table,
        "purge_table": purge_table,
        "_load_file_io": _load_file_io,
        "_delete_old_metadata": staticmethod(delete_old_metadata),
        "policy": policy,
        **dict.fromkeys(("swap_tables", "finish_swap", "is_swap_begun"), swap_tables),
    }
    if hasattr(plain, "_update_and_stage_table"):
        members["_update_and_stage_table"] = _update_and_stage_table
    catalog.__class__ = type(plain.__name__, (plain,), members)
    return catalog


def _placed(
    catalog: Any, name: Identifier, args: tuple[Any, ...], kwargs: dict[str, Any], properties: dict[str, str]
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, str]]:
    """The arguments of `create_table` with a location that is checked, and the properties to store."""
    from pyiceberg.exceptions import TableAlreadyExistsError

    from sealberg.catalogs.new_places import NewPlace, always_unique, tables_of
    from sealberg.metadata.table_places import check_paths, without_consent

    properties, wanted = without_consent(properties)
    check_paths(properties)
    given = kwargs.get("location", args[1] if len(args) > 1 else None)

    def io_for(at: str) -> Any:
        return catalog._load_file_io(location=at)  # noqa: SLF001

    place = NewPlace(".".join(name), io_for, lambda: tables_of(catalog), wanted=wanted)
    try:
        if given:
            location: str | None = place.given(given)
        elif hasattr(catalog, "_resolve_table_location"):
            usual = catalog._resolve_table_location(None, *catalog.identifier_to_database_and_table(name))  # noqa: SLF001
            location = place.usual(usual, unique=always_unique(catalog.properties))
        else:
            place.named(f"/{'/'.join(name)}")
            location = None
    except LocationError as error:
        if catalog.table_exists(name):
            raise TableAlreadyExistsError(f"Table {'.'.join(name)} already exists") from error
        raise
    if len(args) > 1:
        return (args[0], location, *args[2:]), kwargs, properties
    return args, {**kwargs, "location": location}, properties
