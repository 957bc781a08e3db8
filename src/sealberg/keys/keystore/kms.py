"""Master keys in a file encrypted with a passphrase: a KMS for one machine.

    passphrase ── scrypt ──> keystore.age ──> JWK set ──> master keys ──> wrap, unwrap
    (file, environment, prompt)

    encryption.kms.keystore.path              default: keystore.age in SEALBERG_HOME or ~/.sealberg
    encryption.kms.keystore.passphrase-file   a file with the passphrase as its only line
    encryption.kms.keystore.passphrase-env    an environment variable, default SEALBERG_PASSPHRASE

`KeystoreFile` creates and changes the file, `KeystoreKms` uses it, and `JavaKeystoreKms` uses the
PKCS12 store of Java's KeyStoreKmsClient. Whoever loses the file loses every table under its keys.
"""

from __future__ import annotations

import os
import re
import shlex
import threading
from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from sealberg.errors import (
    AuthenticationError,
    ConfigError,
    FormatError,
    KeyAccessError,
    NothingThereError,
    UnsupportedError,
    WrongKeyError,
)
from sealberg.keys.keystore import age, pkcs12, private_file
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.kms.local import LocalKms
from sealberg.keys.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

PATH: Final = "encryption.kms.keystore.path"
# Names of properties, not passphrases (S105).
PASSPHRASE_FILE: Final = "encryption.kms.keystore.passphrase-file"  # noqa: S105
PASSPHRASE_ENV: Final = "encryption.kms.keystore.passphrase-env"  # noqa: S105
PASSPHRASE: Final = "encryption.kms.keystore.passphrase"  # noqa: S105 (always refused)
DEFAULT_ENV: Final = "SEALBERG_PASSPHRASE"
HOME_ENV: Final = "SEALBERG_HOME"
JAVA_PATH: Final = "kms.client.keystore.path"
JAVA_ENV: Final = "KEYSTORE_PASSWORD"

_NO_PASSPHRASE: Final = (
    f"no passphrase for the keystore: set {PASSPHRASE_FILE}, or the environment variable {DEFAULT_ENV} "
    f"(or the variable that {PASSPHRASE_ENV} names), or run in a terminal to be asked"
)
_NO_JAVA_PASSWORD: Final = f"the environment variable {JAVA_ENV} is not set, set it to the password of the PKCS12 store"


def default_path() -> Path:
    return Path(os.environ.get(HOME_ENV) or "~/.sealberg").expanduser().absolute() / "keystore.age"


@dataclass(frozen=True, slots=True)
class PassphraseSource:
    """The source of a passphrase, never the passphrase itself: a file, else an environment variable, else a prompt."""

    file: Path | None = None
    env: str = DEFAULT_ENV
    missing: str = field(default=_NO_PASSPHRASE, repr=False)  # the error message if there is no passphrase
    ask: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.env):
            # The value is not shown: it may be the passphrase itself.
            raise ConfigError(
                f"{PASSPHRASE_ENV} is not the name of an environment variable, expected letters, digits and _"
            )

    def get(self) -> str:
        if self.file is not None:
            return self._from_file(self.file)
        # An empty variable counts as not set.
        if value := os.environ.get(self.env):
            return value
        if self.ask is not None:
            return self.ask()
        raise ConfigError(self.missing)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.env, self.missing)  # another process cannot prompt

    @staticmethod
    def _from_file(path: Path) -> str:
        content, _ = private_file.read(path)
        line = content.removesuffix(b"\n").removesuffix(b"\r")
        if not line:
            raise ConfigError(f"the passphrase file {path} is empty, expected one line")
        if b"\n" in line:
            raise ConfigError(f"the passphrase file {path} has several lines, expected one line")
        return line.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class KeystoreFile:
    """A keystore on disk. Each method reads and decrypts the file again."""

    path: Path

    def read(self, passphrase: str) -> Keystore:
        return self.load(passphrase)[0]

    def create(self, keystore: Keystore, passphrase: str, *, work_factor: int = age.WORK_FACTOR) -> None:
        """Write a new file; an existing file is never overwritten, nor is one made beside a former one."""
        if former := private_file.generations(self.path):
            raise ConfigError(
                f"cannot create {self.path}: {former[0]} holds the keys of a former keystore. Restore it under the "
                "name of the keystore; or move it away, if no table needs its keys"
            )
        private_file.create(self.path, age.seal(keystore.encode(), passphrase, work_factor=work_factor))

    def add(self, passphrase: str, keys: Iterable[MasterKey]) -> Keystore:
        """Add keys; if an id exists already, no key is added."""
        return self._change(passphrase, passphrase, lambda keystore: keystore.with_keys(keys))

    def destroy(self, passphrase: str, key_id: str) -> Keystore:
        """Remove a key, here and from all former files; every table under it is lost. No error if there is none.

        ConfigError, and nothing is changed, if a former file does not open: it may hold the key.
        """
        with private_file.locked(self.path):
            places = (self.path.resolve(), *self.generations)
            opened = [(place, *self._former(place, passphrase)) for place in places]
            for place, keystore, work_factor in opened:
                if keystore.get(key_id) is not None:
                    content = keystore.without(key_id).encode()
                    private_file.rewrite(place, age.seal(content, passphrase, work_factor=work_factor))
        return opened[0][1].without(key_id)

    def _former(self, place: Path, passphrase: str) -> tuple[Keystore, int]:
        try:
            return KeystoreFile(place).load(passphrase)
        except WrongKeyError:
            if place in self.generations:
                raise ConfigError(
                    f"no key was removed: {place} does not open with this passphrase, so whether it holds the key "
                    "is not known. It is a former generation of the keystore, from before the passphrase was changed: "
                    "delete it if no table needs its keys, and try again"
                ) from None
            raise

    def change_passphrase(self, passphrase: str, new: str) -> Keystore:
        """Encrypt the same keys with a new passphrase. The previous file still opens with the old passphrase."""
        return self._change(passphrase, new, lambda keystore: keystore)

    @property
    def previous(self) -> Path:
        return private_file.previous(self.path)

    @property
    def generations(self) -> tuple[Path, ...]:
        """The former files that are there, newest first."""
        return private_file.generations(self.path)

    def load(self, passphrase: str) -> tuple[Keystore, int]:
        """The keys and the work factor."""
        sealed, _ = private_file.read(self.path)
        with _naming_file(self.path):
            return Keystore.decode(age.open(sealed, passphrase)), age.work_factor(sealed)

    def _change(self, passphrase: str, new: str, edit: Callable[[Keystore], Keystore]) -> Keystore:
        # Read under the lock, so that no concurrent change is lost.
        with private_file.locked(self.path):
            keystore, work_factor = self.load(passphrase)
            changed = edit(keystore)
            private_file.replace(self.path, age.seal(changed.encode(), new, work_factor=work_factor))
        return changed


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Adds the path of the file to errors of the formats, which know only bytes."""
    try:
        yield
    except (FormatError, AuthenticationError, UnsupportedError) as error:
        raise type(error)(f"{path}: {error}") from None
    except KeyAccessError as error:
        raise error.about(keystore=str(path)) from None


@dataclass(frozen=True, slots=True)
class _LoadedKeys:
    keys: Mapping[str, MasterKey] = field(repr=False)
    stamp: private_file.Stamp | None


class FileKms(LocalKms):
    """Master keys from a file, which is decrypted on first use, and again when it was replaced or removed.

    Decryption is slow by design (scrypt), so each use looks at the file without opening it. A key that was destroyed
    is gone for running processes, too. The keys never leave the process: a pickle carries the path and the source of
    the passphrase.
    """

    def __init__(self, path: str | Path, passphrase: PassphraseSource) -> None:
        self.path = Path(path).expanduser().absolute()
        self.passphrase = passphrase
        self._loaded: _LoadedKeys | None = None
        # A child that is forked while a thread reads the file reads it again.
        self._opening = PerProcess(threading.Lock)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @abstractmethod
    def _read(self, passphrase: str) -> Iterable[MasterKey]:
        """Read and decrypt the file."""

    def master_key(self, master_key_id: str) -> bytes | None:
        found = self._entry(master_key_id)
        return None if found is None else found.key

    def describe(self, master_key_id: str) -> Mapping[str, str]:
        facts, found = super().describe(master_key_id), self._entry(master_key_id)
        created = {"created": found.created.isoformat()} if found is not None and found.created else {}
        return {"path": str(self.path), **facts, **created}

    def key_ids(self, most: int) -> tuple[str, ...] | None:
        """The ids in the file when it was last read, which was when a key was not found in it."""
        loaded = self._loaded
        return None if loaded is None else tuple(sorted(loaded.keys))[:most]

    def close(self) -> None:
        self._loaded = None

    def _entry(self, master_key_id: str) -> MasterKey | None:
        try:
            return self._find(self._id(master_key_id))
        except KeyAccessError as error:
            raise error.about(provider=self.provider, key_id=master_key_id) from None

    def _id(self, master_key_id: str) -> str:
        return master_key_id

    def _find(self, name: str) -> MasterKey | None:
        with self._opening.here():
            # The stamp is taken first, so that a file replaced during the read is read again later.
            loaded, stamp = self._loaded, private_file.stamp(self.path)
            if loaded is None or loaded.stamp != stamp:
                self._loaded = None  # what is destroyed, or cannot be read any more, opens nothing
                loaded = self._loaded = _LoadedKeys({key.id: key for key in self._read(self.passphrase.get())}, stamp)
            return loaded.keys.get(name)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "passphrase": self.passphrase}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], state["passphrase"])  # type: ignore[misc]


class KeystoreKms(FileKms):
    """Master keys in sealberg's keystore."""

    provider = "keystore"
    property_names = (PATH, PASSPHRASE_FILE, PASSPHRASE_ENV)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        if PASSPHRASE in properties:
            raise ConfigError(
                f"{PASSPHRASE} is refused: a property must not hold a secret; set {PASSPHRASE_FILE} or {PASSPHRASE_ENV}"
            )
        file = properties.get(PASSPHRASE_FILE)
        source = PassphraseSource(
            Path(file).expanduser().absolute() if file else None, properties.get(PASSPHRASE_ENV) or DEFAULT_ENV
        )
        return cls(properties.get(PATH) or default_path(), source)

    def _advice(self, master_key_id: str) -> str:
        if former := private_file.generations(self.path):
            return f"restore it from its former generation: {shlex.join(['mv', str(former[0]), str(self.path)])}"
        command = self._command("create", "--key", master_key_id)
        return f"restore it from a copy; only if there never was one, and no table needs it, make one: `{command}`"

    def command_to_make(self, master_key_id: str) -> str:
        return self._command("add", master_key_id)

    def _command(self, *arguments: str) -> str:
        path = [] if self.path == default_path() else ["--path", str(self.path)]
        return shlex.join(["sealberg", "keystore", *arguments, *path])

    def _entry(self, master_key_id: str) -> MasterKey | None:
        if not self.path.exists():  # checked before the prompt for a passphrase
            self._loaded = None
            raise NothingThereError(f"cannot read {self.path}: no such file; {self._advice(master_key_id)}")
        return super()._entry(master_key_id)

    def deletion_days(self, master_key_id: str) -> range:  # noqa: ARG002 (the same for every key)
        return range(1)

    def schedule_deletion(self, master_key_id: str, days: int) -> Mapping[str, str]:  # noqa: ARG002 (at once)
        KeystoreFile(self.path).destroy(self.passphrase.get(), self._id(master_key_id))
        self._loaded = None
        return {"path": str(self.path), "state": "deleted"}

    def asking(self, ask: Callable[[], str]) -> Self:
        """The same client, which prompts if neither file nor environment has the passphrase."""
        return type(self)(self.path, replace(self.passphrase, ask=ask))

    def _read(self, passphrase: str) -> Iterable[MasterKey]:
        return KeystoreFile(self.path).read(passphrase).keys


class JavaKeystoreKms(FileKms):
    """The PKCS12 store of `org.apache.iceberg.encryption.KeyStoreKmsClient`, with the same property and variable.

    keytool stores aliases in lower case, so key ids are compared in lower case, as in Java. The
    file's mode is not checked: keytool makes the file readable by others, and Java accepts that.
    """

    provider = "java-keystore"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        if not properties.get(JAVA_PATH):
            raise ConfigError(f"{JAVA_PATH} is not set, set it to the path of a PKCS12 store")
        return cls(properties[JAVA_PATH], PassphraseSource(env=JAVA_ENV, missing=_NO_JAVA_PASSWORD))

    def _id(self, master_key_id: str) -> str:
        return master_key_id.lower()

    def _read(self, passphrase: str) -> Iterable[MasterKey]:
        return read_pkcs12(self.path, passphrase)


def read_pkcs12(path: Path, password: str) -> tuple[MasterKey, ...]:
    """The AES keys of a PKCS12 store, their ids in lower case."""
    store, _ = private_file.read(path, private=False)
    with _naming_file(path):
        keys = pkcs12.open(store, password)
        if not keys:
            raise FormatError("PKCS12 store has no secret keys, expected at least one AES key")
    return keys
