"""Namespaces of a catalog, as Spark asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchNamespaceError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True)
class Namespaces:
    """SHOW, CREATE, ALTER, DESCRIBE and DROP NAMESPACE; SHOW TABLES."""

    catalog: Catalog

    def tables(self, arguments: dict[str, Any]) -> list[str]:
        return [name[-1] for name in self.catalog.list_tables(tuple(arguments["namespace"]))]

    def list(self, arguments: dict[str, Any]) -> list[list[str]]:
        parent = tuple(arguments["namespace"])
        # Spark shows what is directly below; a catalog may give the whole way down.
        found = self.catalog.list_namespaces(parent)
        return [list(name) for name in dict.fromkeys(name[: len(parent) + 1] for name in found)]

    def load(self, arguments: dict[str, Any]) -> dict[str, str]:
        namespace = tuple(arguments["namespace"])
        if not self.catalog.namespace_exists(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(namespace)}")
        return {name: str(value) for name, value in self.catalog.load_namespace_properties(namespace).items()}

    def create(self, arguments: dict[str, Any]) -> None:
        self.catalog.create_namespace(tuple(arguments["namespace"]), arguments["properties"])

    def alter(self, arguments: dict[str, Any]) -> None:
        self.catalog.update_namespace_properties(
            tuple(arguments["namespace"]), set(arguments["remove"]), arguments["set"]
        )

    def drop(self, arguments: dict[str, Any]) -> bool:
        namespace = tuple(arguments["namespace"])
        if not self.catalog.namespace_exists(namespace):
            return False
        if arguments["cascade"]:
            for table in self.catalog.list_tables(namespace):
                self.catalog.drop_table(table)
        self.catalog.drop_namespace(namespace)
        return True
