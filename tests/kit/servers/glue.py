"""AWS Glue on loopback: moto in this process, extended to compare the version id of an update.

    glue()                          properties for a catalog on an empty Glue, each time
    parameters("db.t")              the parameters of a table; set_parameters changes them, as other tools can

moto accepts updates of any version. Glue refuses an update of an older version with ConcurrentModificationException,
and so does moto here.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import boto3
from moto.core.exceptions import JsonRESTError
from moto.glue.responses import GlueResponse
from moto.server import ThreadedMotoServer

from kit import leftovers

if TYPE_CHECKING:
    from collections.abc import Mapping

REGION: Final = "eu-central-1"
_one_at_a_time: Final = threading.Lock()


def glue() -> dict[str, str]:
    """The properties for a Glue without databases."""
    for database in client().get_databases()["DatabaseList"]:
        client().delete_database(Name=database["Name"])
    return {
        "type": "glue",
        "glue.endpoint": _server(),
        "glue.region": REGION,
        "glue.access-key-id": "test",
        "glue.secret-access-key": "test",
    }


@cache
def client() -> Any:
    return boto3.client(
        "glue", endpoint_url=_server(), region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
    )


def parameters(name: str) -> dict[str, str]:
    database, table = name.split(".")
    return dict(client().get_table(DatabaseName=database, Name=table)["Table"]["Parameters"])


def set_parameters(name: str, changes: Mapping[str, str | None]) -> None:
    """Change parameters as a tool that does not know trust records; None removes a parameter."""
    database, table = name.split(".")
    opened = client()
    found = opened.get_table(DatabaseName=database, Name=table)["Table"]
    after = {key: value for key, value in {**found["Parameters"], **changes}.items() if value is not None}
    kept = {key: found[key] for key in ("Name", "TableType", "StorageDescriptor")}
    opened.update_table(DatabaseName=database, TableInput={**kept, "Parameters": after})


@cache
def _server() -> str:
    GlueResponse.update_table = _versioned(GlueResponse.update_table)  # type: ignore[method-assign]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    leftovers.lasts(server.stop, lambda: {leftovers.port(port)})
    return f"http://{host}:{port}"


def _versioned(update: Any) -> Any:
    def compare(self: Any) -> Any:
        named = self.parameters.get("VersionId")
        with _one_at_a_time:
            table = self.glue_backend.get_table(
                self.parameters.get("DatabaseName"), self.parameters.get("TableInput")["Name"]
            )
            if named is not None and named != table.as_dict()["VersionId"]:
                raise JsonRESTError(
                    "ConcurrentModificationException", "Update table failed due to concurrent modifications."
                )
            return update(self)

    return compare
