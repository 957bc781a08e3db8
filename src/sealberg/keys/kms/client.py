"""The interface of key management services, which hold the master keys and never reveal them.

    wrap(key, master_key_id)       -> wrapped bytes, stored unchanged in table metadata
    unwrap(wrapped, master_key_id) -> the key

A table needs only these two calls. The jobs that look after keys use more of them, where a provider has them: which
version of a master key wrapped a key, rewrapping with the newest version, deletion of a master key.

`encryption.kms-type` names one of TYPES, as in Java;
`encryption.kms-impl` names a class by its dotted path, of Python or, on Spark, of Java (java_class.py).
A third party registers a type by an entry point in the group `sealberg.kms`. To add a client to sealberg: one file,
and one line in TYPES.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from sealberg.errors import ConfigError, SealbergError, UnsupportedError
from sealberg.format.aes_gcm import check_key_length
from sealberg.keys.kms.retry_policy import PREFIX, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

KMS_TYPE: Final = "encryption.kms-type"
KMS_IMPL: Final = "encryption.kms-impl"
UNVERSIONED: Final = "only"  # the version of a master key that can have no other

TYPES: Final[Mapping[str, str]] = {
    "memory": "sealberg.keys.kms.memory:MemoryKms",
    "keystore": "sealberg.keys.keystore.kms:KeystoreKms",
    "vault": "sealberg.keys.kms.vault.client:VaultKms",
    "aws": "sealberg.keys.kms.aws:AwsKms",
    "gcp": "sealberg.keys.kms.gcp:GcpKms",
    "azure": "sealberg.keys.kms.azure:AzureKms",
    "pkcs11": "sealberg.keys.kms.pkcs11:Pkcs11Kms",
}
EXTRAS: Final[Mapping[str, str]] = {
    "vault": "vault",
    "aws": "aws",
    "gcp": "gcp",
    "azure": "azure",
    "pkcs11": "hsm",
}
# A configuration written for Java works unchanged.
JAVA_CLASSES: Final[Mapping[str, str]] = {
    "org.apache.iceberg.aws.AwsKeyManagementClient": TYPES["aws"],
    "org.apache.iceberg.azure.keymanagement.AzureKeyManagementClient": TYPES["azure"],
    "org.apache.iceberg.gcp.GcpKeyManagementClient": TYPES["gcp"],
    "org.apache.iceberg.encryption.KeyStoreKmsClient": "sealberg.keys.keystore.kms:JavaKeystoreKms",
    "org.apache.iceberg.encryption.UnitestKMS": "sealberg.keys.kms.memory:UnitestKms",
}


class WrappedKey(bytes):
    """Wrapped bytes, with properties that the KMS client needs to unwrap them.

    Most providers put all information into the wrapped bytes; Azure leaves out the key version.
    The properties are stored with the bytes, in the KEK entry of the table metadata.
    """

    properties: Mapping[str, str]

    def __new__(cls, wrapped: bytes, properties: Mapping[str, str] | None = None) -> Self:
        self = super().__new__(cls, wrapped)
        self.properties = MappingProxyType(dict(properties or {}))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (bytes(self), dict(self.properties))


@dataclass(frozen=True, slots=True)
class GeneratedKey:
    """A new key, and the same key wrapped."""

    key: bytes = field(repr=False, hash=False)
    wrapped: bytes


class KmsClient(ABC):
    """The interface of a KMS client. A client holds settings only, so that it pickles, and connects on first use.

    Methods are called from several threads at once. A third-party client is guarded: see guarded.py.
    """

    provider: str = "kms"
    retries_itself: bool = False  # True: GuardedKms calls the client once for each request
    generates: bool = False  # True: `generate` has the provider make the key
    can_hang: ClassVar[bool] = False  # True for a client of this package whose calls have no time limit
    property_names: ClassVar[tuple[str, ...]] = ()  # accepted names under `encryption.kms.`; "a.b." is a prefix

    @classmethod
    def is_built_in(cls) -> bool:
        return cls.__module__.startswith("sealberg.keys.")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Build a client from all properties of a catalog, as Java's `initialize` does."""
        raise ConfigError(
            f"{cls.__qualname__} cannot be built from properties {sorted(properties)}: "
            "the class does not implement from_properties"
        )

    @abstractmethod
    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        """Encrypt `key` under the master key; the result may be a `WrappedKey`."""

    @abstractmethod
    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        """Decrypt bytes that `wrap` returned."""

    def generate(self, length: int, master_key_id: str) -> GeneratedKey:
        """A new random key and the same key wrapped; a client may let the provider generate the key."""
        check_key_length(length)
        key = os.urandom(length)
        return GeneratedKey(key, self.wrap(key, master_key_id))

    def rewrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        """Wrap the same key with the newest version of the master key; done by the server if it can.

        May return `wrapped` itself if the newest version wrapped it.
        """
        return self.wrap(self.unwrap(wrapped, master_key_id), master_key_id)

    def newest_version(self, master_key_id: str) -> str | None:  # noqa: ARG002 (for clients that can)
        """The version of the master key that wraps now; UNVERSIONED if there is but one; None if the KMS does not tell.

        May need a permission that tables do not need.
        """
        return None

    def version_in(self, wrapped: bytes) -> str | None:  # noqa: ARG002 (for clients that can)
        """The version that wrapped these bytes, as far as the bytes tell; calls nobody."""
        return None

    def unwrap_by(self, wrapped: bytes, master_key_id: str, newest: str | None) -> tuple[bytes, bool | None]:
        """The key, and whether the newest version of the master key unwrapped it; None if the KMS does not tell.

        Args:
            newest: what `newest_version` returned.
        """
        key, version = self.unwrap(wrapped, master_key_id), self.version_in(wrapped)
        return key, None if newest is None or version is None else version == newest

    def deletion_days(self, master_key_id: str) -> range:
        """The waiting times, in days, that the KMS offers for the deletion of this master key; 0 is at once."""
        raise UnsupportedError(
            f"the KMS client {self.provider} cannot delete the master key {master_key_id}: use the provider's tools"
        )

    def schedule_deletion(self, master_key_id: str, days: int) -> Mapping[str, str]:  # noqa: ARG002
        """Delete a master key after this waiting time; a key that is deleted or scheduled already is no error.

        Returns the provider's description of the deletion, with its date.
        """
        self.deletion_days(master_key_id)
        return {}

    def describe(self, master_key_id: str) -> Mapping[str, str]:  # noqa: ARG002 (for clients that can)
        """The provider's description of a master key; may need a permission that tables do not need."""
        return {}

    def trouble_in(self, facts: Mapping[str, str]) -> str | None:  # noqa: ARG002 (for clients that can)
        """What a description says against the use of its key, such as the date of its deletion; calls nobody."""
        return None

    def key_ids(self, most: int) -> tuple[str, ...] | None:  # noqa: ARG002 (for clients that can)
        """At most `most` ids of existing master keys, for error messages; None if unknown.

        Sends at most one request, without retries. May need a permission that tables do not need.
        """
        return None

    def command_to_make(self, master_key_id: str) -> str | None:  # noqa: ARG002 (for clients that can)
        """The shell command that creates a master key of this id, for error messages; None if unknown."""
        return None

    def close(self) -> None:
        """Close connections; the client must not be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def client_from_properties(properties: Mapping[str, str]) -> KmsClient:
    """The client that a catalog's properties name."""
    kind, impl = properties.get(KMS_TYPE), properties.get(KMS_IMPL)
    if kind and impl:
        raise ConfigError(f"Cannot set both KMS type ({kind}) and KMS impl ({impl})")
    if kind:
        return _build(_class_of_type(kind), properties)
    if impl:
        from sealberg.keys.kms.java_class import JavaClassKms, java_class

        return _build(JavaClassKms if java_class(properties) else _class_of_impl(impl), properties)
    raise ConfigError(
        "Cannot create encryption manager without a key management client. "
        f"Consider setting the '{KMS_TYPE}' or '{KMS_IMPL}' catalog property"
    )


def _build(cls: type[KmsClient], properties: Mapping[str, str]) -> KmsClient:
    from sealberg.keys.kms.guarded import guarded  # guarded.py imports this module

    policy = RetryPolicy.from_properties(properties)
    if cls.is_built_in():
        client = cls.from_properties(properties)
        _refuse_unknown(cls, properties)
        return guarded(client, policy)
    try:
        return guarded(cls.from_properties(properties), policy)
    except SealbergError:
        raise
    except Exception as error:
        # The type alone: the message may quote a property that holds a secret.
        raise ConfigError(
            f"Cannot initialize KeyManagementClient, from_properties of {cls.__module__}.{cls.__qualname__} "
            f"failed with {type(error).__name__}"
        ) from error


def _refuse_unknown(cls: type[KmsClient], properties: Mapping[str, str]) -> None:
    known = (*RetryPolicy.property_names(), *cls.property_names)
    for name in sorted(properties):
        accepted = any(name == each or (each.endswith(".") and name.startswith(each)) for each in known)
        if name.startswith(PREFIX) and not accepted:
            names = ", ".join(f"{each}*" if each.endswith(".") else each for each in known)
            raise ConfigError(f"unknown property {name} for the KMS client {cls.provider} (known: {names})")


def _class_of_type(kind: str) -> type[KmsClient]:
    name = kind.lower()
    if name in TYPES:
        return _load(TYPES[name], extra=EXTRAS.get(name))
    for entry in entry_points(group="sealberg.kms"):
        if entry.name.lower() == name:
            return _checked(entry.load(), entry.value)
    known = sorted({*TYPES, *(entry.name for entry in entry_points(group="sealberg.kms"))})
    raise ConfigError(f"Unsupported KMS type: {kind} (known: {', '.join(known)})")


def _class_of_impl(impl: str) -> type[KmsClient]:
    if impl in JAVA_CLASSES:
        path = JAVA_CLASSES[impl]
        kind = next((kind for kind, known in TYPES.items() if known == path), "")
        return _load(path, extra=EXTRAS.get(kind))
    if impl.startswith("org.apache.iceberg."):
        known = ", ".join(sorted(TYPES))
        raise ConfigError(f"the Java class {impl} has no counterpart in Python; set {KMS_TYPE} to one of {known}")
    return _load(impl if ":" in impl else ":".join(impl.rpartition(".")[::2]), extra=None)


def _load(path: str, *, extra: str | None) -> type[KmsClient]:
    module, _, name = path.partition(":")
    try:
        loaded = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").startswith("sealberg"):
            raise ConfigError(f"Cannot initialize KeyManagementClient, cannot import {path}: {error}") from error
        raise ConfigError(
            f"the KMS client {path} needs the package {error.name}: pip install 'sealberg[{extra}]'"
        ) from error
    except (AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"Cannot initialize KeyManagementClient, no class at {path}") from error
    return _checked(loaded, path)


def _checked(loaded: object, path: str) -> type[KmsClient]:
    if isinstance(loaded, type) and issubclass(loaded, KmsClient):
        return loaded
    raise ConfigError(f"Cannot initialize kms client, {path} does not implement KeyManagementClient interface")
