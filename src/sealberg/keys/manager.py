"""Makes, seals and opens the keys of one table.

    new_file_key()                      a key for a data file, delete file, manifest or manifest list
    seal_list_key(ring, key metadata)   -> the ring plus an entry (and a KEK, if a new KEK was due), and the entry's id
    open_list_key(ring, key id)         -> the key metadata of that manifest list
    rewrap_kek(ring, KEK, version)      -> the same KEK under the newest version of its master key

The KMS wraps KEKs only; a KEK seals the keys of manifest lists, and every other file key is stored in
the file's parent. The manager holds no ring: the commit passes its ring in, and commits the returned
ring in the same step as the snapshot that needs it.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import time
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from sealberg.errors import (
    AuthenticationError,
    ConfigError,
    FormatError,
    IntegrityError,
    KeyAccessError,
    KeyringError,
    MissingLengthError,
    WrongKeyError,
)
from sealberg.format import aes_gcm
from sealberg.format.key_frames import keyless
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.audit import KeyUse
from sealberg.keys.file_key import DEFAULT_KEY_LENGTH, KEY_LENGTH_PROPERTY, new_file_key
from sealberg.keys.java_order import first_in_java
from sealberg.keys.kek_cache import DEFAULT_TTL_S, KekCache
from sealberg.keys.keyring import DAY_MS, KEK_LIFESPAN_MS, KEY_TIMESTAMP, EncryptedKey, Keyring
from sealberg.keys.kms.client import WrappedKey, client_from_properties
from sealberg.keys.kms.guarded import guarded
from sealberg.keys.kms.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sealberg.keys.kms.client import KmsClient

KEY_ID_PROPERTY: Final = "encryption.key-id"
CACHE_TTL_PROPERTY: Final = "encryption.kek-cache-ttl-s"
LIFESPAN_PROPERTY: Final = "encryption.kek-lifespan-days"
GENERATE_PROPERTY: Final = "encryption.generate-keks-in-kms"


@dataclass(frozen=True)
class EncryptionSettings:
    """The settings with which a process opens and writes one table; frozen and picklable.

    Args:
        table: the name of the table, for messages.
        master_key_id: `encryption.key-id`, from the catalog and never from storage.
        key_length: `encryption.data-key-length`, for new file keys and new KEKs.
        also_trusted: other master keys whose KEKs may be opened, for tables that were moved to a new master key.
        kek_lifespan_ms: how long a KEK seals new keys; at most Java's 730 days.
        generates_keks: new KEKs are made by the KMS and not by this process.
        cache_ttl_s: how long an unwrapped KEK is kept in memory; 0 disables the cache.
        kms_properties: the catalog's properties, which name the KMS client.
    """

    table: str
    master_key_id: str
    key_length: int = DEFAULT_KEY_LENGTH
    also_trusted: frozenset[str] = frozenset()
    kek_lifespan_ms: int = KEK_LIFESPAN_MS
    cache_ttl_s: float = DEFAULT_TTL_S
    generates_keks: bool = False
    kms_properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    def __post_init__(self) -> None:
        if not self.master_key_id:
            raise ConfigError(f"table {self.table} has no {KEY_ID_PROPERTY}, expected the id of a master key")
        if self.key_length not in aes_gcm.KEY_LENGTHS:
            raise ConfigError(f"Invalid data key length: {self.key_length} (must be 16, 24, or 32)")
        if not 0 < self.kek_lifespan_ms <= KEK_LIFESPAN_MS:
            raise ConfigError(
                f"{LIFESPAN_PROPERTY} must be more than 0 and at most 730 days, found {self.kek_lifespan_ms / DAY_MS:g}"
            )
        if not 0 <= self.cache_ttl_s < float("inf"):
            raise ConfigError(f"{CACHE_TTL_PROPERTY} must be 0 or more, found {self.cache_ttl_s}")
        object.__setattr__(self, "kms_properties", MappingProxyType(dict(self.kms_properties)))

    @classmethod
    def from_properties(cls, table: str, table_properties: Mapping[str, str], catalog: Mapping[str, str]) -> Self:
        """Settings from a table's trusted properties and the properties of its catalog."""
        return cls(
            table,
            table_properties.get(KEY_ID_PROPERTY, ""),
            _integer(table_properties, KEY_LENGTH_PROPERTY, DEFAULT_KEY_LENGTH),
            kek_lifespan_ms=int(_number(catalog, LIFESPAN_PROPERTY, 730) * DAY_MS),
            cache_ttl_s=_number(catalog, CACHE_TTL_PROPERTY, DEFAULT_TTL_S),
            generates_keks=_flag(catalog, GENERATE_PROPERTY),
            kms_properties=catalog,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kms_properties": dict(self.kms_properties)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, kms_properties=MappingProxyType(state["kms_properties"]))


class EncryptionManager:
    """Makes, seals and opens the keys of one table; safe to share among threads; pickled without keys.

    The KMS client and the cache may be shared by all tables of a catalog; by default, the client is
    built on first use. Time and randomness are arguments, so that known-answer tests can fix them.
    """

    def __init__(
        self,
        settings: EncryptionSettings,
        *,
        kms: KmsClient | None = None,
        cache: KekCache | None = None,
        now_ms: Callable[[], int] | None = None,
        randomness: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.settings = settings
        self.cache = cache if cache is not None else KekCache(settings.cache_ttl_s)
        self._kms = None if kms is None else guarded(kms, RetryPolicy.from_properties(settings.kms_properties))
        self._given_kms = kms
        self._now_ms = now_ms or _clock_ms
        self._randomness = randomness
        self._recorded: set[str] = set()  # KEKs whose use is in the audit log

    def __repr__(self) -> str:
        return f"EncryptionManager({self.settings.table}, {self.settings.master_key_id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.settings, self._given_kms, self.cache)

    @property
    def kms(self) -> KmsClient:
        if self._kms is None:
            self._kms = client_from_properties(self.settings.kms_properties)
        return self._kms

    def new_file_key(self) -> KeyMetadata:
        """A key for a file that is about to be written."""
        return new_file_key(self.settings.key_length, randomness=self._randomness)

    @keyless
    def with_active_kek(self, ring: Keyring) -> tuple[Keyring, EncryptedKey]:
        """The ring, with a new KEK if it had no active KEK, and the active KEK."""
        active = ring.active_kek(
            self._now_ms(),
            master_key_id=self.settings.master_key_id,
            lifespan_ms=self.settings.kek_lifespan_ms,
        )
        if active is not None:
            return ring, active
        made = self.new_kek()
        return ring.with_keys(made), made

    @keyless
    def new_kek(self, *, replacing: Keyring | None = None) -> EncryptedKey:
        """A new KEK, wrapped by the master key.

        Args:
            replacing: the keys of the table, whose KEKs may still seal new keys. The new KEK is newer than all of
                them, whatever the clock says, and has an id that Java prefers to theirs.
        """
        master_key_id = self.settings.master_key_id
        older = () if replacing is None else replacing.keks(master_key_id)
        young = [kek.key_id for kek in older if self._now_ms() - (kek.timestamp_ms or 0) < KEK_LIFESPAN_MS]
        key_id = first_in_java(self._new_key_id, young, 0 if replacing is None else len(replacing))
        kms, use = self.kms, self._use(key_id, master_key_id)
        with _error_context(self.settings.table, key_id, "wrap a new KEK"), use.recorded("wrap"):
            key, wrapped = self._made(kms, master_key_id)
        # A KEK that the KMS cannot unwrap would lose the table. A new KEK is rare, so the extra call is cheap.
        with _error_context(self.settings.table, key_id, "unwrap a new KEK"), use.recorded("unwrap"):
            if kms.unwrap(wrapped, master_key_id) != key:
                raise WrongKeyError(
                    "the KMS unwrapped another key than it had wrapped; the new KEK is not used", key_id=master_key_id
                )
        self._recorded.add(key_id)
        more = wrapped.properties if isinstance(wrapped, WrappedKey) else {}
        made_ms = max(self._now_ms(), *((kek.timestamp_ms or 0) + 1 for kek in older), 0)
        stamped = {KEY_TIMESTAMP: str(made_ms), **more}
        entry = EncryptedKey(key_id, bytes(wrapped), master_key_id, stamped)
        self.cache.put(entry, key)
        return entry

    def _made(self, kms: KmsClient, master_key_id: str) -> tuple[bytes, bytes]:
        """The key of a new KEK, and the key wrapped."""
        length = self.settings.key_length
        if not self.settings.generates_keks:
            key = self._randomness(length)
            return key, kms.wrap(key, master_key_id)
        if not kms.generates:
            raise ConfigError(
                f"{GENERATE_PROPERTY}=true, and the KMS client {kms.provider} cannot have its provider make keys"
            )
        made = kms.generate(length, master_key_id)
        if len(made.key) != length:
            raise KeyringError(f"the KMS made a key of {len(made.key)} bytes, expected {length}")
        return made.key, made.wrapped

    @keyless
    def rewrap_kek(self, ring: Keyring, kek: EncryptedKey, newest: str | None) -> tuple[EncryptedKey, bool | None]:
        """The KEK wrapped by the newest version of its master key, and whether the KMS says that this version opens it.

        The entry is returned as it is if the newest version wraps it already. Two calls to the KMS; one more if the
        KMS cannot rewrap by itself, and one more if nothing is sealed under the KEK, with which to compare it.

        Args:
            newest: what `KmsClient.newest_version` returned.
        """
        master_key_id = self._trusted_master(kek)
        kms, use = self.kms, self._use(kek.key_id, master_key_id)
        old = WrappedKey(kek.encrypted_key_metadata, kek.properties)
        with _error_context(self.settings.table, kek.key_id, "rewrap a KEK"), use.recorded("rewrap"):
            new = kms.rewrap(old, master_key_id)
        if bytes(new) != kek.encrypted_key_metadata:
            more = new.properties if isinstance(new, WrappedKey) else {}
            entry = replace(kek, encrypted_key_metadata=bytes(new), properties={**kek.properties, **more})
        else:
            entry = kek
        again = WrappedKey(entry.encrypted_key_metadata, entry.properties)
        with _error_context(self.settings.table, kek.key_id, "unwrap a KEK"), use.recorded("unwrap"):
            key, by_newest = kms.unwrap_by(again, master_key_id, newest)
        if not self._is_same(ring, kek, key):
            raise WrongKeyError(
                f"the KMS unwrapped another key than the KEK {kek.key_id} that it had rewrapped; nothing was changed",
                key_id=master_key_id,
            )
        self.cache.put(entry, key)
        return entry, by_newest

    @keyless
    def prove_kek(self, ring: Keyring, kek: EncryptedKey) -> None:
        """Have the KMS unwrap a KEK, whatever the cache holds; an error unless it opens a key that it has sealed."""
        key = self._ask(kek)
        if self._opens(ring, kek, key) is False:
            raise WrongKeyError(
                f"the KMS unwrapped another key than the KEK {kek.key_id} of table {self.settings.table}",
                key_id=kek.encrypted_by_id,
            )

    def _is_same(self, ring: Keyring, kek: EncryptedKey, key: bytes) -> bool:
        """Whether this is the KEK's own key: it opens what was sealed under the KEK, or is what the KMS unwrapped."""
        return self._opens(ring, kek, key) or self._unwrap(kek) == key

    @staticmethod
    def _opens(ring: Keyring, kek: EncryptedKey, key: bytes) -> bool | None:
        """Whether the key opens one that was sealed under the KEK; None if the KEK has sealed none."""
        assert kek.timestamp is not None, "a KEK has a timestamp"
        sealed = [entry for entry in ring if entry.encrypted_by_id == kek.key_id]
        for entry in sealed:
            with contextlib.suppress(AuthenticationError, FormatError):
                aes_gcm.open(key, entry.encrypted_key_metadata, kek.timestamp.encode())
                return True
        return False if sealed else None

    @keyless
    def seal_list_key(
        self, ring: Keyring, key_metadata: KeyMetadata, properties: Mapping[str, str] | None = None
    ) -> tuple[Keyring, str]:
        """Add the key of a finished manifest list or statistics file.

        The returned id becomes the `key-id` of the snapshot or of the statistics file. `properties` are stored as
        plaintext beside the key.
        """
        if key_metadata.file_length is None:
            raise MissingLengthError("internal error: the key of a file is sealed before the file is finished")
        ring, kek = self.with_active_kek(ring)
        assert kek.timestamp is not None, "an active KEK has a timestamp"
        sealed = aes_gcm._seal(  # noqa: SLF001 (randomness is this object's own argument)
            self._unwrap(kek), key_metadata.encode(), kek.timestamp.encode(), self._randomness(aes_gcm.NONCE_LENGTH)
        )
        entry = EncryptedKey(self._new_key_id(), sealed, kek.key_id, properties or {})
        return ring.with_keys(entry), entry.key_id

    @keyless
    def reseal(self, ring: Keyring, key_id: str) -> EncryptedKey:
        """The entry of a manifest list or statistics file with this id, sealed under the active KEK of the ring."""
        key_metadata = self.open_list_key(ring, key_id)
        entry = ring.get(key_id)
        more, new_id = self.seal_list_key(ring, key_metadata)
        sealed = more.get(new_id)
        assert entry is not None
        assert sealed is not None
        if sealed.encrypted_by_id not in ring:
            raise KeyringError(f"table {self.settings.table} has no active KEK, under which to seal the key {key_id}")
        return replace(
            entry,
            encrypted_key_metadata=sealed.encrypted_key_metadata,
            encrypted_by_id=sealed.encrypted_by_id,
        )

    @keyless
    def open_list_key(self, ring: Keyring, key_id: str) -> KeyMetadata:
        """The key metadata of the manifest list whose entry has this id."""
        with _error_context(self.settings.table):
            entry, kek = ring.list_key(key_id)
        assert kek.timestamp is not None, "list_key returns no KEK without a timestamp"
        kek.refuse_future(self._now_ms())
        key = self._unwrap(kek)
        try:
            blob = aes_gcm.open(key, entry.encrypted_key_metadata, kek.timestamp.encode())
        except (AuthenticationError, FormatError):
            raise AuthenticationError(
                f"key {key_id} of table {self.settings.table} does not decrypt with its KEK {kek.key_id}: "
                f"the key's entry, the KEK's entry or the KEK's {KEY_TIMESTAMP} was altered"
            ) from None
        return KeyMetadata.decode(blob)

    def close(self) -> None:
        """Remove unwrapped keys from memory, and close the KMS client if this manager created the client."""
        self.cache.close()
        if self._kms is not None and self._given_kms is None:
            self._kms.close()
            self._kms = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _trusted_master(self, kek: EncryptedKey) -> str:
        """The id of the KEK's master key, if this table may have it."""
        master_key_id = kek.encrypted_by_id
        trusted = {self.settings.master_key_id, *self.settings.also_trusted}
        if master_key_id is None or master_key_id not in trusted:
            # An attacker who can write metadata.json could name a master key of his own.
            raise IntegrityError(
                f"KEK {kek.key_id} of table {self.settings.table} is wrapped by the master key {master_key_id}, "
                f"expected {self.settings.master_key_id}, the table's {KEY_ID_PROPERTY}"
            )
        return master_key_id

    def _ask(self, kek: EncryptedKey) -> bytes:
        """The key of a KEK, from the KMS."""
        master_key_id, kms = self._trusted_master(kek), self.kms
        use = self._use(kek.key_id, master_key_id)
        with _error_context(self.settings.table, kek.key_id, "unwrap a KEK"), use.recorded("unwrap"):
            key = kms.unwrap(WrappedKey(kek.encrypted_key_metadata, kek.properties), master_key_id)
        if len(key) not in aes_gcm.KEY_LENGTHS:
            raise KeyringError(
                f"KEK {kek.key_id} of table {self.settings.table} has {len(key)} bytes, expected 16, 24 or 32"
            )
        self._recorded.add(kek.key_id)
        return key

    def _unwrap(self, kek: EncryptedKey) -> bytes:
        master_key_id = self._trusted_master(kek)
        key = self.cache.get(kek, lambda: self._ask(kek))
        if kek.key_id not in self._recorded:
            # The KMS was not called for this table, so the log of the KMS does not show that the table was opened.
            self._recorded.add(kek.key_id)
            self._use(kek.key_id, master_key_id).record("cached")
        return key

    def _use(self, kek_id: str, master_key_id: str) -> KeyUse:
        # A table that is opened from the cache may have no KMS client yet.
        return KeyUse(self.settings.table, kek_id, master_key_id, self._kms.provider if self._kms is not None else None)

    def _new_key_id(self) -> str:
        return base64.b64encode(self._randomness(16)).decode("ascii")


class _error_context:  # noqa: N801 (used as `with _error_context(...)`)
    """Adds the table, the KEK and the operation to an error of the KMS client."""

    def __init__(self, table: str, kek_id: str | None = None, operation: str | None = None) -> None:
        self._about = {"operation": operation, "table": table, "kek_id": kek_id}

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyAccessError):
            raise error.about(**self._about) from error


def _rebuild(settings: EncryptionSettings, kms: KmsClient | None, cache: KekCache) -> EncryptionManager:
    return EncryptionManager(settings, kms=kms, cache=cache)


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _number(properties: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(properties.get(name, default))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"{name} must be a number, found {properties[name]!r}")
    return value


def _flag(properties: Mapping[str, str], name: str) -> bool:
    value = str(properties.get(name, "false")).lower()
    if value not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, found {properties[name]!r}")
    return value == "true"


def _integer(properties: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(properties.get(name, default))
    except ValueError:
        raise ConfigError(f"{name} must be an integer, found {properties[name]!r}") from None
