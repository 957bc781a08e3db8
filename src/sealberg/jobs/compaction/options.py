"""What compaction does, with the names and the defaults of Java's rewrite_data_files.

CompactOptions(min_input_files=2)                          in Python
CompactOptions.from_properties({"min-input-files": "2"})   by the names of Java's options

target-file-size-bytes               how large new files should be; default: the table's write.target-file-size-bytes
min-file-size-bytes                  smaller files are rewritten; default: 75 % of the target
max-file-size-bytes                  larger files are split; default: 180 % of the target
min-input-files                      so many files of a partition are rewritten, however small they are together
delete-file-threshold                a file with so many delete files is rewritten
delete-ratio-threshold               a file of whose rows so large a part is deleted is rewritten
rewrite-all                          every file is rewritten
max-file-group-size-bytes            the most that is rewritten and committed as a unit
max-file-group-input-files           the same, as a number of files
max-files-to-rewrite                 the most files of one run
max-concurrent-file-group-rewrites   how many groups are worked on at a time; default: what the runner can do
partial-progress.enabled             one commit per batch of groups, instead of one for all
partial-progress.max-commits         the number of batches
partial-progress.max-failed-commits  the run ends after so many failed batches; default: as many as batches
rewrite-job-order                    none, bytes-asc, bytes-desc, files-asc or files-desc
use-starting-sequence-number         new files get the sequence number of the snapshot that was read
remove-dangling-deletes              delete files that apply to no file are removed afterwards
output-spec-id                       only the table's current partition spec
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self

from sealberg.errors import ConfigError
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGET: Final = "write.target-file-size-bytes"
DEFAULT_TARGET: Final = 512 << 20
MOST: Final = 2**31 - 1
ORDERS: Final = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")
JAVA_NAMES: Final = {
    "partial_progress_enabled": "partial-progress.enabled",
    "partial_progress_max_commits": "partial-progress.max-commits",
    "partial_progress_max_failed_commits": "partial-progress.max-failed-commits",
}


@dataclass(frozen=True)
class CompactOptions:
    """The options of Java's rewrite_data_files; each is described above."""

    target_file_size_bytes: int | None = None
    min_file_size_bytes: int | None = None
    max_file_size_bytes: int | None = None
    min_input_files: int = 5
    delete_file_threshold: int = MOST
    delete_ratio_threshold: float = 0.3
    rewrite_all: bool = False
    max_file_group_size_bytes: int = 100 << 30
    max_file_group_input_files: int = 2**63 - 1
    max_files_to_rewrite: int | None = None
    max_concurrent_file_group_rewrites: int | None = None
    partial_progress_enabled: bool = False
    partial_progress_max_commits: int = 10
    partial_progress_max_failed_commits: int | None = None
    rewrite_job_order: str = "none"
    use_starting_sequence_number: bool = True
    remove_dangling_deletes: bool = False
    output_spec_id: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("min_file_size_bytes", "output_spec_id") else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise ConfigError(f"{java_name(field.name)} is {value}, expected {least} or more")
        if not 0 < self.delete_ratio_threshold <= 1:
            raise ConfigError(
                f"delete-ratio-threshold is {self.delete_ratio_threshold}, expected more than 0 and at most 1"
            )
        if self.rewrite_job_order not in ORDERS:
            raise ConfigError(f"rewrite-job-order is {self.rewrite_job_order!r}, expected one of {', '.join(ORDERS)}")
        if self.partial_progress_max_failed_commits is not None and not self.partial_progress_enabled:
            raise ConfigError("partial-progress.max-failed-commits is set, expected partial-progress.enabled as well")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """The options by Java's names, as text; a name that Java does not know is refused."""
        known = {java_name(field.name): field for field in fields(cls)}
        if unknown := sorted(properties.keys() - known.keys()):
            raise ConfigError(
                f"unknown options of rewrite_data_files: {', '.join(unknown)}; known are {', '.join(sorted(known))}"
            )
        given: dict[str, Any] = {}
        for name, text in properties.items():
            field = known[name]
            given[field.name] = _parsed(name, text, str(field.type))
        return cls(**given)

    def sizes(self, properties: Mapping[str, str]) -> Sizes:
        """The sizes of files for a table with these properties."""
        target = self.target_file_size_bytes or value_of(properties, TARGET, DEFAULT_TARGET)
        low, high = self.min_file_size_bytes, self.max_file_size_bytes
        return Sizes(target, int(target * 0.75) if low is None else low, int(target * 1.8) if high is None else high)


@dataclass(frozen=True)
class Sizes:
    """The size that files should have, and the sizes from which on they are rewritten."""

    target: int
    least: int
    most: int

    def __post_init__(self) -> None:
        if self.target <= 0:
            raise ConfigError(f"target-file-size-bytes is {self.target}, expected 1 or more")
        if not self.least < self.target < self.most:
            raise ConfigError(
                f"min-file-size-bytes is {self.least}, target-file-size-bytes {self.target} and max-file-size-bytes "
                f"{self.most}: each must be less than the next"
            )

    @property
    def most_written(self) -> int:
        """The size that no new file should exceed: halfway between the target and the size from which files are split,
        since a little more than the target is better than a tiny file for the rest."""
        return self.target + (self.most - self.target) // 2

    def output_files(self, input_size: int) -> int:
        """How many files to write for so many bytes; the rest gets a file of its own only if that is large enough."""
        whole, rest = divmod(input_size, self.target)
        if whole == 0:
            return 1
        if rest > self.least:
            return whole + 1
        average = input_size // whole
        return whole if average < min(1.1 * self.target, self.most_written) else whole + (1 if rest else 0)

    def split_size(self, input_size: int) -> int:
        """How many bytes of input make one output file."""
        estimate = input_size // self.output_files(input_size) + OVERHEAD
        return self.target if estimate < self.target else min(estimate, self.most_written)


OVERHEAD: Final = 5 << 10  # Java's: so that the last rows need no file of their own


def java_name(name: str) -> str:
    return JAVA_NAMES.get(name, name.replace("_", "-"))


def _parsed(name: str, text: str, kind: str) -> int | float | bool | str:
    try:
        if kind.startswith("bool"):
            if text.lower() not in ("true", "false"):
                raise ValueError
            return text.lower() == "true"
        if kind.startswith("float"):
            return float(text)
        return int(text) if kind.startswith("int") else text
    except ValueError:
        wanted = {"bool": "true or false", "float": "a number"}.get(kind, "an integer")
        raise ConfigError(f"{name} is {text!r}, expected {wanted}") from None
