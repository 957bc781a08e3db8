"""What a shredding rests on: each object in the table's folders was opened with a key before the keys went, or is told.

    authenticated(table)   before: as `verify` does, every byte of every file that the metadata name
    left_over(table, ...)  after: an object that is still the one that was authenticated is noise now. All others are
                           judged as `verify` judges what no metadata name: findings, or not proved

Which objects were authenticated is kept as a digest in a property of the table, which the catalog vouches for: the
keys are gone, and a run after a kill, or after later commits, could open none of them again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sealberg.errors import AccessDeniedError, KmsUnavailableError, SealbergError
from sealberg.files.file_io import METADATA_SUFFIXES
from sealberg.files.listing import list_files
from sealberg.files.locations import Locations, normal, within
from sealberg.files.object_versions import older_versions
from sealberg.jobs.checks import table_state
from sealberg.jobs.checks.files import check_file
from sealberg.jobs.checks.forms import is_sealed
from sealberg.jobs.checks.outcome import Outcome, reason_of
from sealberg.jobs.checks.storage import check_older_metadata, check_storage
from sealberg.jobs.key_jobs import manager_of
from sealberg.jobs.removal.former_folders import others_inside
from sealberg.jobs.runner import Threads
from sealberg.jobs.verify import TableCheck, VerifyOptions
from sealberg.table.own_folders import own_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sealberg.files.listing import Listed
    from sealberg.table.catalog_table import CatalogTable

AUTHENTICATED: Final = "sealberg.shred.authenticated"  # a digest over what was opened before the keys were taken out
ABOUT_PLACES: Final = ("elsewhere",)  # of a file that was opened all the same
ONLY_NOISE: Final = ("orphan",)  # codes of objects that may be noise, which nothing proves


@dataclass(frozen=True)
class Authenticated:
    """The objects that were opened with a key of the table, each with a mark of what was opened.

    Attributes:
        unproved: what was not, with the reason.
    """

    marks: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    unproved: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return _digest(self.marks)


@dataclass(frozen=True)
class LeftOver:
    """What lies in the folders afterwards.

    Attributes:
        proved: how many of the objects were authenticated.
        findings: what is no noise.
        unproved: what may be anything.
    """

    objects: int
    proved: int
    findings: tuple[str, ...]
    unproved: tuple[str, ...]


def authenticated(table: CatalogTable, folders: Sequence[str]) -> Authenticated:
    """Open every file that the table names, from its first byte to its last.

    Args:
        folders: those that the table has had.

    Raises:
        KmsUnavailableError, AccessDeniedError: before anything is destroyed that could be proved another time.
    """
    _open_all_keys(table)
    state = table_state.of_table(table)
    check = TableCheck(state, VerifyOptions(orphan_age=timedelta(0)))
    for report in Threads().run(check_file, check.tasks()):
        check.add(report)
    outcome = check.outcome
    wrong = [each for each in outcome.findings if each.file is not None and each.code not in ABOUT_PLACES]
    bad = Locations(str(each.file) for each in wrong)
    bad.update(each.what for each in outcome.not_checked if "/" in each.what)
    sealed: dict[str, bytes] = {}
    earlier: dict[str, bytes] = {}
    for listed in _objects(table, folders):
        place = normal(listed.location)
        if listed.problem is not None or _is_metadata(listed.location):
            continue
        if check.named.has_normal(place) and not bad.has_normal(place):
            sealed[place] = _mark(listed)
        elif _has_form(table, listed):
            earlier[place] = _mark(listed)
    vouched = table.catalog.vouches(table)
    if earlier and vouched and table.metadata.properties.get(AUTHENTICATED) == _digest(earlier):
        sealed |= earlier  # an earlier run has opened exactly these
    told = [
        str(each)
        for each in wrong
        if normal(str(each.file)) not in sealed and not str(each.file).endswith(METADATA_SUFFIXES)
    ]
    return Authenticated(sealed, (*told, *map(str, check.outcome.all_not_checked())))


def _open_all_keys(table: CatalogTable) -> None:
    for snapshot in table.metadata.snapshots:
        if snapshot.key_id is None:
            continue  # a finding
        try:
            manager_of(table).open_list_key(table.metadata.encryption_keys, snapshot.key_id)
        except (KmsUnavailableError, AccessDeniedError):
            raise
        except SealbergError:
            continue  # nobody can open it any more: a finding, or not proved


def left_over(table: CatalogTable, folders: Sequence[str], before: Authenticated, *, versions: bool = True) -> LeftOver:
    """Judge every object in the table's folders, after its keys were taken out.

    Args:
        versions: ask the store for older versions of objects, too.
    """
    state = table_state.of_table(table)
    outcome = Outcome(state.name)
    if state.encrypted is None:
        reason = "" if state.error is None else f": {reason_of(state.error)}"
        return LeftOver(0, 0, (), (f"the table could not be loaded again, so nothing was searched{reason}",))
    try:
        objects = list(_objects(table, folders))
    except (SealbergError, OSError) as error:
        return LeftOver(0, 0, (), (f"the folders of the table could not be listed: {reason_of(error)}",))
    proved = [each for each in objects if before.marks.get(normal(each.location)) == _mark(each)]
    named = Locations(each.location for each in proved)
    count = len(proved)
    check_older_metadata(state, outcome, named)
    named.add(table.metadata_location)
    leave = others_inside(table, folders)
    unnamed = check_storage(state, named, outcome, timedelta(0), names_complete=True, more=folders, leave=leave)
    findings = [str(each) for each in outcome.findings if each.code not in ONLY_NOISE]
    noise = [each.file for each in outcome.findings if each.code in ONLY_NOISE]
    unproved = [
        f"{location} has the form of a sealed file, and no key of the table has opened it" for location in noise
    ]
    unproved += [f"{location} is too young to be judged" for location in unnamed.in_flight]
    unproved += map(str, outcome.all_not_checked())
    if versions:
        _add_versions(table, folders, findings, unproved)
    if unproved:
        unproved += before.unproved  # the reasons
    return LeftOver(len(objects), count, tuple(findings), tuple(unproved))


def _add_versions(table: CatalogTable, folders: Sequence[str], findings: list[str], unproved: list[str]) -> None:
    """Older versions of metadata files hold the keys that were taken out, for whoever asks the store for them."""
    for folder in (*own_folders(table.metadata), *folders):
        others: dict[str, int] = {}
        try:
            for version in older_versions(table.inner, folder):
                if _is_metadata(version.location):
                    told = f"{version.location} version {version.version_id}"
                    findings.append(f"the store keeps {told}: an older version of a metadata file may hold keys")
                else:
                    others[version.location] = others.get(version.location, 0) + 1
        except SealbergError as error:
            unproved.append(f"{folder}: versions of objects were not looked for: {error}")
        unproved += (f"the store keeps {count} older versions of {location}" for location, count in others.items())


def _objects(table: CatalogTable, folders: Sequence[str]) -> Iterator[Listed]:
    """Everything in the folders of the table, but not in those of other tables."""
    leave = others_inside(table, folders)
    seen = Locations()
    for folder in own_folders(table.metadata):
        yield from (each for each in list_files(table.inner, folder) if seen.adds(each.location))
    for folder in folders:
        for listed in list_files(table.inner, folder):
            if seen.adds(listed.location) and not any(within(listed.location, other) for other in leave):
                yield listed


def _is_metadata(location: str) -> bool:
    return location.endswith(METADATA_SUFFIXES)


def _has_form(table: CatalogTable, listed: Listed) -> bool:
    try:
        return is_sealed(table.inner, listed.location, listed.size)
    except (SealbergError, OSError):
        return False


def _mark(listed: Listed) -> bytes:
    text = f"{listed.size}\n{listed.modified}\n{listed.mark}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _digest(marks: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for place, mark in sorted(marks.items()):
        found.update(f"{place}\0".encode() + mark)
    return found.hexdigest()
