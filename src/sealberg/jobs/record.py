"""Records of jobs that destroy something: who ran the job, what was done and checked, under the seal of a KMS.

    sealed(facts, Sealer(kms, "hr"))   the facts, a digest over them, and the digest wrapped under a key of the KMS
    write_files(document, page, path)  FILE.json, and the page beside it
    check(document, kms)               `sealberg verify-record`: what has been changed since

    {..., "sha256": digest, "seal": {"kms": "aws", "key": "alias/audit", "wrapped": base64, "properties": {...}}}

Only who may wrap with that key can make the seal of another record: a writer of the tables under the key may, a reader
may not. With an RSA key (Azure, some HSMs) whoever has its public half may; a record wants a symmetric key. The digest
begins with words of its own, so that no wrapped data key is a seal.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import hmac
import json
import os
import pwd
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import (
    ConfigError,
    IntegrityError,
    NothingThereError,
    SealbergError,
    WrongKeyError,
    WrongPassphraseError,
)
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED
from sealberg.keys.kms.client import WrappedKey

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sealberg.keys.kms.client import KmsClient

WORDS: Final = b"sealberg record 1\n"
MOST_BYTES: Final = 256 << 20


def this_user() -> str:
    """Who runs this process, and on which machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def is_self(name: str) -> bool:
    """Whether this is a name of the user who runs this process: the login, also with the host, or the full name."""
    login = getpass.getuser()
    names = {login, this_user(), f"{login}@{socket.getfqdn()}"}
    with suppress(KeyError):  # a login without an account, as in a container
        names.add(pwd.getpwnam(login).pw_gecos.partition(",")[0])
    return " ".join(name.split()).casefold() in {each.casefold() for each in names if each}


@dataclass(frozen=True)
class Sealer:
    """Seals records under one key."""

    kms: KmsClient = field(repr=False)
    key_id: str

    def wrap(self, digest: bytes) -> dict[str, Any]:
        wrapped = self.kms.wrap(digest, self.key_id)
        return {
            "kms": self.kms.provider,
            "key": self.key_id,
            "wrapped": base64.b64encode(wrapped).decode(),
            "properties": dict(getattr(wrapped, "properties", {})),
        }


def digest_of(facts: Mapping[str, Any]) -> bytes:
    """The digest over all members but the digest and the seal."""
    rest = {name: value for name, value in facts.items() if name not in ("sha256", "seal")}
    return hashlib.sha256(WORDS + json.dumps(rest, sort_keys=True, ensure_ascii=True).encode()).digest()


def sealed(facts: Mapping[str, Any], sealer: Sealer) -> dict[str, Any]:
    """The facts with their digest and its seal."""
    digest = digest_of(facts)
    return {**facts, "sha256": digest.hex(), "seal": sealer.wrap(digest)}


def check_file(path: Path, option: str = "--record") -> None:
    """Refuse a name that a record cannot have."""
    if path.suffix != ".json" or not path.absolute().parent.is_dir():
        raise ConfigError(f"{option} is {path}, expected a file FILE.json in a folder that exists")


def write_files(document: Mapping[str, Any], page: str, path: Path) -> None:
    """Write the record as JSON, and as a page beside it; each file is replaced when the new one is whole."""
    from sealberg.jobs.report.document import write_page

    write_page(json.dumps(document, indent=2, ensure_ascii=False) + "\n", path)
    write_page(page, path.with_suffix(".html"))
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)  # the record of what was there must outlive what was there
    finally:
        os.close(descriptor)


def read_file(path: Path) -> dict[str, Any]:
    """A record; ConfigError if the file is none."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_members)
    except FileNotFoundError:
        raise NothingThereError(f"no record {path}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not the record of a job: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("sha256"), str):
        raise ConfigError(f"{path} is not the record of a job: it has no digest")
    return found


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; of two with one name, a reader sees the first and a parser takes the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("two members of an object have the same name")
    return found


@dataclass(frozen=True)
class RecordCheck:
    """What a check of a record has found.

    Attributes:
        about: what the record is of.
        findings: what was changed since, or is not what was expected.
        not_checked: why it could not be checked.
    """

    about: str
    sealed_by: str
    findings: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        if self.not_checked:
            return NOT_CHECKED
        return FINDINGS if self.findings else FINE

    def to_json(self) -> dict[str, Any]:
        return {
            "job": "verify-record",
            "exit_code": self.exit_code,
            "record": self.about,
            "sealed_by": self.sealed_by,
            "findings": list(self.findings),
            "not_checked": list(self.not_checked),
        }

    def __str__(self) -> str:
        verdicts = {
            FINE: f"genuine: it is as it was sealed, under {self.sealed_by}",
            FINDINGS: "NOT genuine",
            NOT_CHECKED: "not checked",
        }
        told = [f"  FOUND: {each}" for each in self.findings]
        told += [f"  NOT CHECKED: {each}" for each in self.not_checked]
        return "\n".join([self.about, *told, f"verdict: {verdicts[self.exit_code]}"])


def check(document: Mapping[str, Any], kms: KmsClient, *, key_id: str | None = None) -> RecordCheck:
    """Whether a record is as it was sealed.

    Args:
        key_id: the key that must have sealed it.
    """
    about = f"{document.get('job', 'record')} of {document.get('table') or document.get('catalog', '?')}"
    about = f"{about}, by {document.get('run_by', '?')}, {document.get('ended') or document.get('started') or '?'}"
    digest, by = digest_of(document), ""
    try:
        if document.get("sha256") != digest.hex():
            raise _ChangedError("the record has been changed: its digest is of other facts")
        named, provider, wrapped = _seal_of(document)
        by = f"the key {named} of the KMS ({provider})"
        if key_id is not None and named != key_id:
            raise _ChangedError(f"sealed under the key {named}, expected {key_id}")
        if provider != kms.provider:
            raise _UnknownError(f"sealed by the KMS {provider}, and this catalog has {kms.provider}")
        if not hmac.compare_digest(_opened(kms, wrapped, named), digest):
            raise _ChangedError("the record has been changed: the seal is of another one")
    except _ChangedError as error:
        return RecordCheck(about, by, (str(error),))
    except _UnknownError as error:
        return RecordCheck(about, by, (), (str(error),))
    return RecordCheck(about, by)


class _ChangedError(Exception):
    pass


class _UnknownError(Exception):
    pass


def _seal_of(document: Mapping[str, Any]) -> tuple[str, str, WrappedKey]:
    seal = document.get("seal")
    try:
        if not isinstance(seal, dict):
            raise TypeError
        wrapped = WrappedKey(base64.b64decode(seal["wrapped"], validate=True), seal["properties"])
        return str(seal["key"]), str(seal["kms"]), wrapped
    except (KeyError, TypeError, ValueError):
        raise _UnknownError("the record has no seal, or half of one, so anybody may have written it") from None


def _opened(kms: KmsClient, wrapped: WrappedKey, key_id: str) -> bytes:
    try:
        return bytes(kms.unwrap(wrapped, key_id))
    except WrongPassphraseError as error:
        raise _UnknownError(str(error)) from error
    except (IntegrityError, WrongKeyError) as error:
        raise _ChangedError(f"the seal does not open: {error}") from error
    except (SealbergError, OSError) as error:  # the key is gone, the KMS does not answer, or not to this user
        raise _UnknownError(str(error)) from error
