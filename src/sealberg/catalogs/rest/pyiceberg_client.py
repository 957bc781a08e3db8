"""PyIceberg's REST client: the only module that uses its private names.

    purpose                                           | private names
    a request, its response as JSON: `ask_...`        | RestCatalog._session, _check_endpoint, _split_identifier...
    401 and 419: one retry with a new token           | _RETRY_ARGS
    an error response as PyIceberg's exception        | response._handle_non_200_response
    the FileIO of a table, with vended credentials    | RestCatalog._load_file_io, _check_endpoint
    a table of version 1 or 2                         | RestCatalog._response_to_table

PyIceberg's own methods parse a response into models that drop keys, so this module makes the requests about tables and
returns the JSON unchanged. Namespaces, views, OAuth2, request signing and TLS are PyIceberg's.
"""

from __future__ import annotations

import contextlib
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyiceberg.catalog.rest as theirs
from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pyiceberg.catalog import TOKEN
from pyiceberg.catalog.rest import Capability, Endpoints, RestCatalog, TableResponse
from pyiceberg.catalog.rest import response as answers
from pyiceberg.catalog.rest.scan_planning import StorageCredential  # noqa: TC002 (a field of a model)
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.table import StagedTable
from pyiceberg.typedef import IcebergBaseModel
from requests import HTTPError
from requests.auth import AuthBase
from tenacity import retry

from sealberg.catalogs.rest.responses import unrestricted
from sealberg.catalogs.rest.session import bound_answers, clean_errors, name_server, stay_at_origin, without_secrets
from sealberg.errors import FormatError
from sealberg.files.confined_io import ConfinedFileIO, names_host, stores
from sealberg.files.vended_io import Lease, VendedFileIO, ends_at, longest_prefix
from sealberg.metadata import java_json
from sealberg.metadata.metadata_file import max_bytes, parse
from sealberg.metadata.storage_properties import (
    catalog_config,
    for_file_io,
    from_server,
    refuse_remote_signing,
    vended_sas,
)
from sealberg.pyiceberg_private import check_contract
from sealberg.table.plain_table import PlainTable, first_line, harmless

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier
    from requests import PreparedRequest, Session

CONTRACT: Final[Mapping[str, tuple[Any, str, Sequence[str] | None]]] = {
    "RestCatalog._create_session": (RestCatalog, "_create_session", ("self",)),
    "RestCatalog._check_endpoint": (RestCatalog, "_check_endpoint", ("self", "endpoint")),
    "RestCatalog._split_identifier_for_path": (
        RestCatalog,
        "_split_identifier_for_path",
        ("self", "identifier", "kind"),
    ),
    "RestCatalog._load_file_io": (RestCatalog, "_load_file_io", ("self", "properties", "location")),
    "RestCatalog._response_to_table": (RestCatalog, "_response_to_table", ("self", "identifier_tuple")),
    "RestCatalog._response_to_staged_table": (RestCatalog, "_response_to_staged_table", ("self", "identifier_tuple")),
    "RestCatalog._fetch_config": (RestCatalog, "_fetch_config", None),
    "rest._RETRY_ARGS": (theirs, "_RETRY_ARGS", None),
    "response._handle_non_200_response": (answers, "_handle_non_200_response", ("exc", "error_handler")),
}

check_contract(CONTRACT)

# With these status codes the server may have committed. 501 means that it did not.
UNKNOWN: Final = {code: CommitStateUnknownException for code in range(500, 600) if code != 501}
MODE: Final = theirs.SNAPSHOT_LOADING_MODE
_retry: Any = retry
_with_fresh_token: Any = _retry(**theirs._RETRY_ARGS)  # noqa: SLF001


class _Bearer(AuthBase):
    """The token that the server vended for one table."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _StorageConfig(IcebergBaseModel):
    """The configuration of the storage in a response."""

    config: dict[str, str] = Field(default_factory=dict)
    storage_credentials: list[StorageCredential] = Field(alias="storage-credentials", default_factory=list)

    @field_validator("config", "storage_credentials", mode="before")
    @classmethod
    def _present(cls, value: Any, about: ValidationInfo) -> Any:
        return value if value is not None else {} if about.field_name == "config" else []


class RestSeams(RestCatalog):
    """Requests about tables with JSON responses; `own` are the operator's properties."""

    own: Mapping[str, Any] = MappingProxyType({})

    def _fetch_config(self) -> None:
        """Fetch the server's configuration, and keep only the properties that a server may set."""
        own = self.own = dict(self.properties)
        super()._fetch_config()
        self.properties = catalog_config(f"the REST server {without_secrets(own['uri'])}", own, self.properties)
        self.uri = self.properties["uri"]

    def _create_session(self) -> Session:
        session = super()._create_session()
        stay_at_origin(session)
        bound_answers(session, max_bytes(self.properties))
        clean_errors(session, self.properties)
        name_server(session)
        return session

    def ask_load(self, identifier: Identifier, *, snapshots: str | None = None) -> dict[str, Any]:
        self._check_endpoint(Capability.V1_LOAD_TABLE)
        params = {"snapshots": snapshots} if snapshots else {}
        url = self._url(Endpoints.load_table, identifier)
        return self._whole(identifier, self._ask("GET", url, {404: NoSuchTableError}, params=params))

    def ask_stage(self, identifier: Identifier, body: dict[str, Any]) -> dict[str, Any]:
        """The metadata that a new table would have; nothing is created yet."""
        self._check_endpoint(Capability.V1_CREATE_TABLE)
        errors = {404: NoSuchNamespaceError, 409: TableAlreadyExistsError}
        staged = {"name": identifier[-1], "stage-create": True, **body}
        url = self._url(Endpoints.create_table, identifier)
        return self._whole(identifier, self._ask("POST", url, errors, body=staged))

    def ask_commit(
        self,
        identifier: Identifier,
        requirements: Sequence[dict[str, Any]],
        updates: Sequence[dict[str, Any]],
        *,
        token: str | None = None,
        conflict: type[Exception] = CommitFailedException,
    ) -> dict[str, Any]:
        """Commit; CommitStateUnknownException if the server may have committed and did not say so."""
        self._check_endpoint(Capability.V1_UPDATE_TABLE)
        body = {
            "identifier": {"namespace": list(identifier[:-1]), "name": identifier[-1]},
            "requirements": list(requirements),
            "updates": list(updates),
        }
        errors: dict[int, type[Exception]] = {404: NoSuchTableError, 409: conflict, **UNKNOWN}
        return self._ask("POST", self._url(Endpoints.update_table, identifier), errors, body=body, token=token)

    def ask_register(self, identifier: Identifier, location: str, *, overwrite: bool) -> dict[str, Any]:
        self._check_endpoint(Capability.V1_REGISTER_TABLE)
        errors = {404: NoSuchNamespaceError, 409: TableAlreadyExistsError}
        body = {"name": identifier[-1], "metadata-location": location, "overwrite": overwrite}
        url = self._url(Endpoints.register_table, identifier)
        return self._whole(identifier, self._ask("POST", url, errors, body=body))

    def _whole(self, identifier: Identifier, answer: dict[str, Any]) -> dict[str, Any]:
        return unrestricted(f"the REST server {without_secrets(self.uri)}", ".".join(identifier), answer)

    def _url(self, endpoint: str, identifier: Identifier) -> str:
        return self.url(endpoint, prefixed=True, **self._split_identifier_for_path(identifier))

    def _ask(self, method: str, url: str, errors: Mapping[int, type[Exception]], **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._ask_once(method, url, errors, **more)
        return found

    @_with_fresh_token  # type: ignore[untyped-decorator]
    def _ask_once(
        self,
        method: str,
        url: str,
        errors: Mapping[int, type[Exception]],
        *,
        params: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        token: str | None = None,
    ) -> dict[str, Any]:
        data = None if body is None else java_json.dumps(body).encode()
        auth = _Bearer(token) if token else None  # None: the session's own
        answer = self._session.request(method, url, params=params, data=data, auth=auth)
        try:
            answer.raise_for_status()
        except HTTPError as error:
            answers._handle_non_200_response(error, dict(errors))  # noqa: SLF001
        return parse(answer.content, f"the response of {without_secrets(url)}")

    def plain_table(self, identifier: Identifier, answer: dict[str, Any]) -> Table:
        """A table of version 1 or 2, made by PyIceberg."""
        try:
            response = TableResponse.model_validate(answer)
        except ValidationError as error:
            raise FormatError(
                f"the response of {without_secrets(self.uri)} is not a valid table: {first_line(error)}"
            ) from error
        return self._response_to_table(identifier, response)

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        """PyIceberg's own methods make every table of version 1 or 2 here, and every staged table below."""
        io = self._storage_of_response(identifier_tuple, table_response)
        location: Any = table_response.metadata_location
        return PlainTable(identifier_tuple, table_response.metadata, location, io, self, table_response.config)

    def _response_to_staged_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> StagedTable:
        io = self._storage_of_response(identifier_tuple, table_response)
        metadata = harmless(table_response.metadata, {})
        location: Any = table_response.metadata_location
        return StagedTable(identifier_tuple, metadata, location, io, self)

    def _storage_of_response(self, identifier: Identifier, response: TableResponse) -> FileIO:
        # A staged table has no metadata file yet.
        location = response.metadata_location or response.metadata.location
        config = self._storage_config({"config": response.config, "storage-credentials": response.storage_credentials})
        return self._storage(identifier, response.metadata.properties, config, location)

    def storage_of(
        self, identifier: Identifier, answer: dict[str, Any], properties: Mapping[str, str], location: str
    ) -> FileIO:
        """The FileIO of a table: vended credentials override the server's configuration, as specified."""
        return self._storage(identifier, properties, self._storage_config(answer), location)

    def _storage_config(self, answer: dict[str, Any]) -> _StorageConfig:
        try:
            return _StorageConfig.model_validate(answer)
        except ValidationError as error:
            raise FormatError(
                f"the response of {without_secrets(self.uri)} is not a valid table: {first_line(error)}"
            ) from error

    def _storage(
        self, identifier: Identifier, metadata: Mapping[str, str], config: _StorageConfig, location: str
    ) -> FileIO:
        def lease(now: _StorageConfig) -> Lease:
            return self._lease(".".join(identifier), metadata, now, location)

        def renew() -> Lease:
            return lease(self._ask_credentials(identifier, config))

        first = lease(config)
        lasts = first.ends_s is None and len(first.by_prefix) == 1
        inner = first.by_prefix[""] if lasts else VendedFileIO(first, renew)
        # The server may choose the bucket, but not the host to connect to.
        return ConfinedFileIO(inner, stores(self.own, None if names_host(location) else location))

    def _lease(self, table: str, metadata: Mapping[str, str], config: _StorageConfig, location: str) -> Lease:
        """A FileIO for each prefix of vended credentials, and one for all other locations."""
        begins = time.time()
        vended = {credential.prefix: credential.config for credential in config.storage_credentials}
        vended[""] = vended.get(longest_prefix(vended, location) or "", {})
        ios: dict[str, FileIO] = {}
        ends: list[float] = []
        for prefix, credentials in vended.items():
            given = from_server(table, self.properties, {**config.config, **credentials}, self.uri)
            given |= vended_sas(self.properties, given, location)
            io = RestCatalog._load_file_io(self, {**for_file_io(self.properties, metadata), **given}, location)  # noqa: SLF001
            refuse_remote_signing(table, given, io)
            ios[prefix] = io
            if (end := ends_at(given)) is not None:
                ends.append(end)
        return Lease(ios, begins, min(ends, default=None))

    def _ask_credentials(self, identifier: Identifier, config: _StorageConfig) -> _StorageConfig:
        """New credentials, from the credentials endpoint if the server has it, otherwise by loading the table."""
        with contextlib.suppress(NotImplementedError, RESTError):
            self._check_endpoint(Capability.V1_LOAD_CREDENTIALS)
            errors = {404: NoSuchTableError}
            answer = self._ask(
                "GET", self._url(Endpoints.load_credentials, identifier), errors, token=config.config.get(TOKEN)
            )
            fresh = self._storage_config(answer)
            return _StorageConfig.model_validate(
                {"config": config.config, "storage-credentials": fresh.storage_credentials}
            )
        return self._storage_config(self.ask_load(identifier))
