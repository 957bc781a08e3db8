"""Namespaces of a catalog, as Spark asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchNamespaceError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from sealberg.spark.protocol import namespaces as messages


@dataclass(frozen=True)
class Namespaces:
    """SHOW, CREATE, ALTER, DESCRIBE and DROP NAMESPACE; SHOW TABLES."""

    catalog: Catalog

    def tables(self, request: messages.ListTables) -> list[str]:
        return [name[-1] for name in self.catalog.list_tables(request.namespace)]

    def list(self, request: messages.ListNamespaces) -> list[tuple[str, ...]]:
        parent = request.namespace
        # Spark shows the namespaces directly below; a catalog may list namespaces at every depth.
        found = self.catalog.list_namespaces(parent)
        return [*dict.fromkeys(name[: len(parent) + 1] for name in found)]

    def load(self, request: messages.LoadNamespace) -> dict[str, str]:
        namespace = request.namespace
        if not self.catalog.namespace_exists(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(namespace)}")
        return {name: str(value) for name, value in self.catalog.load_namespace_properties(namespace).items()}

    def create(self, request: messages.CreateNamespace) -> None:
        self.catalog.create_namespace(request.namespace, dict(request.properties))

    def alter(self, request: messages.AlterNamespace) -> None:
        self.catalog.update_namespace_properties(request.namespace, set(request.removals), dict(request.updates))

    def drop(self, request: messages.DropNamespace) -> bool:
        namespace = request.namespace
        if not self.catalog.namespace_exists(namespace):
            return False
        if request.cascade:
            for table in self.catalog.list_tables(namespace):
                self.catalog.drop_table(table)
        self.catalog.drop_namespace(namespace)
        return True
