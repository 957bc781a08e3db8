"""What a listing of a bucket does not show: older versions of objects, and objects that look like folders.

    older_versions(io, "s3://lake/hr/people") ──> Version(location, id, size, is_gone); none if the bucket keeps none
    folder_objects(io, "s3://lake/hr/people") ──> objects with content whose name ends with a slash: libraries take them
                                                  for folders

S3 and stores that speak its protocol are asked, with the credentials of the FileIO. Other stores are not:
UnsupportedError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sealberg.errors import StorageAccessError, StorageError, UnsupportedError
from sealberg.files.listing import Listed, leaf_of
from sealberg.files.locations import FAMILIES, LOCAL, split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

# How stores that speak the protocol of S3 say that they have no versions.
WITHOUT: Final = ("NotImplemented", "MethodNotAllowed", "501")
DENIED: Final = ("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken")
ROLES: Final = ("s3.role-arn", "client.role-arn")
NAMES: Final = {"aws_access_key_id": "access-key-id", "aws_secret_access_key": "secret-access-key"} | {
    "aws_session_token": "session-token",
    "region_name": "region",
}


class Version(NamedTuple):
    """An older version of an object.

    Attributes:
        location: the exact name of the object.
        is_gone: whether nothing is at this location now.
    """

    location: str
    version_id: str
    size: int
    is_gone: bool


def keeps_none(location: str) -> bool:
    """Whether a location is on a file system, which keeps no versions that a program could ask for."""
    scheme = split(location)[0].lower()
    return FAMILIES.get(scheme, scheme) in (LOCAL, "hdfs", "viewfs")


def older_versions(io: FileIO, location: str) -> Iterator[Version]:
    """The older versions of all objects below a location.

    Raises:
        UnsupportedError: nobody can ask this store from here.
        StorageError: the store does not answer, or not to these credentials.
    """
    if keeps_none(location):
        return
    scheme, bucket, path = split(location)
    client = _client(io, location)
    prefix = path.strip("/") + "/"
    try:
        status = client.get_bucket_versioning(Bucket=bucket).get("Status")
        if status is None:
            return
        pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
        found: list[tuple[str, str, int]] = []
        latest: set[str] = set()
        for page in pages:
            for each in page.get("Versions", ()):
                if each["IsLatest"]:
                    latest.add(each["Key"])
                elif each.get("Size") or not each["Key"].endswith("/"):  # not what PyArrow makes for a folder
                    found.append((each["Key"], each["VersionId"], int(each.get("Size") or 0)))
    except Exception as error:
        if _code(error) in WITHOUT:
            return
        raise _storage_error(error, location) from error
    for key, version_id, size in found:
        yield Version(f"{scheme}://{bucket}/{key}", version_id, size, key not in latest)


def folder_objects(io: FileIO, location: str) -> Iterator[Listed]:
    """The objects with content below a location that libraries take for folders; none of a file system.

    Raises:
        UnsupportedError: nobody can ask this store from here.
        StorageError: the store does not answer, or not to these credentials.
    """
    if keeps_none(location):
        return
    scheme, bucket, path = split(location)
    client = _client(io, location)
    try:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=path.strip("/") + "/"):
            for each in page.get("Contents", ()):
                if each["Key"].endswith("/") and each.get("Size"):
                    name = f"{scheme}://{bucket}/{each['Key']}"
                    yield Listed(name, int(each["Size"]), each.get("LastModified"), problem="has the name of a folder")
    except Exception as error:
        raise _storage_error(error, location, "whether objects are named as folders is not known") from error


def delete_version(io: FileIO, version: Version) -> None:
    """Delete one version for good; `files.removal` decides which."""
    _, bucket, path = split(version.location)
    try:
        _client(io, version.location).delete_object(Bucket=bucket, Key=path[1:], VersionId=version.version_id)
    except UnsupportedError:
        raise
    except Exception as error:
        raise _storage_error(error, version.location) from error


def _client(io: FileIO, location: str) -> Any:
    scheme = split(location)[0].lower()
    if FAMILIES.get(scheme, scheme) != "s3":
        raise UnsupportedError(f"{scheme} is not asked for versions of objects; look with the tools of the provider")
    properties = leaf_of(io, location).properties
    if any(properties.get(name) for name in ROLES) or "s3.signer" in properties:
        raise UnsupportedError("with a role or remote signing, a bucket is not asked for versions from here")
    try:
        import boto3
        from botocore.config import Config
    except ModuleNotFoundError as error:
        raise UnsupportedError("a bucket is asked for versions by boto3: pip install 'sealberg[aws]'") from error
    given = {
        argument: properties.get(f"s3.{name}") or properties.get(f"client.{name}") or None
        for argument, name in NAMES.items()
    }
    endpoint = properties.get("s3.endpoint") or None
    virtual = str(properties.get("s3.force-virtual-addressing", "false")).lower() == "true"
    style = "virtual" if virtual else "path" if endpoint else "auto"
    addressing: Any = {"addressing_style": style}
    config = Config(s3=addressing, connect_timeout=10, read_timeout=60)
    return boto3.client("s3", endpoint_url=endpoint, config=config, **given)


def _code(error: BaseException) -> str:
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


def _storage_error(
    error: Exception, location: str, what: str = "the versions of objects are not known"
) -> StorageError:
    kind = StorageAccessError if _code(error) in DENIED else StorageError
    return kind(f"{location}: {what}: {type(error).__name__}: {error}")
