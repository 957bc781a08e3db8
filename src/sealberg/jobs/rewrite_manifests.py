"""`rewrite_manifests`: merges manifests into few, clustered by partition. No data file is touched.

    plan("hr.salaries", catalog="prod") ──> ManifestsPlan ──execute()──> ManifestsRewritten

Each new manifest is encrypted under a new key. Others may write meanwhile: the manifests are then written again on
top of their snapshot. `sealberg compact` does the same as its last step.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation

from sealberg.errors import ConfigError
from sealberg.jobs.compaction.commit import publish
from sealberg.jobs.job import FINE, Amount, Plan, PlanStep
from sealberg.jobs.selection import encrypted_table
from sealberg.metadata.manifest import ManifestFileV3
from sealberg.properties.table_names import value_of
from sealberg.write.manifest_rewrite import ManifestRewrite
from sealberg.write.snapshot_builder import MERGE_TARGET_SIZE, FileChanges

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class ManifestsRewritten:
    """The result of `rewrite_manifests`, in Java's words.

    Attributes:
        rewritten_manifests_count: manifests that were replaced.
        added_manifests_count: manifests that replace them.
    """

    table: str
    rewritten_manifests_count: int = 0
    added_manifests_count: int = 0
    snapshot_id: int | None = None

    @property
    def exit_code(self) -> int:
        return FINE

    def to_json(self) -> dict[str, Any]:
        return {"job": "rewrite-manifests", **asdict(self)}

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return f"{self.table}: no manifests to merge"
        return f"{self.table}: {self.rewritten_manifests_count} manifests became {self.added_manifests_count}"


@dataclass(frozen=True)
class ManifestsPlan(Plan[ManifestsRewritten]):
    """The manifests that will be written anew, as the table has them now."""

    table: CatalogTable = field(repr=False)
    rewrite: ManifestRewrite
    branch: str = MAIN_BRANCH

    @property
    def job(self) -> str:
        return "rewrite-manifests"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        name, groups = ".".join(self.table.name()), self.rewrite.choose(live_manifests(self.table, self.branch))
        size = sum(manifest.manifest_length for group in groups for manifest in group)
        writes = Amount(sum(map(self.rewrite.count, groups)), size)
        reads = Amount(sum(map(len, groups)), size)
        return (PlanStep(name, "rewrite manifests", reads, writes, kms_calls=2),)

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> ManifestsRewritten:
        """Write the manifests, in this process: they hold the keys of all files."""
        del progress, runner
        return rewrite_manifests(self.table, self.rewrite, self.branch)


def plan(
    table: TableName,
    *,
    catalog: Catalog | str | None = None,
    target_size: int | None = None,
    spec_id: int | None = None,
    branch: str = MAIN_BRANCH,
) -> ManifestsPlan:
    """What `rewrite_manifests` will do. Reads the manifest list.

    Args:
        table: the name of a table, or an open table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        target_size: of a manifest; by default the table's commit.manifest.target-size-bytes.
        spec_id: manifests of this partition spec; by default of the current spec, as in Java.
    """
    found = encrypted_table(table, catalog)
    specs = found.metadata.specs()
    if spec_id is not None and spec_id not in specs:
        raise ConfigError(f"{'.'.join(found.name())} has no partition spec {spec_id}; it has {sorted(specs)}")
    chosen = found.metadata.default_spec_id if spec_id is None else spec_id
    return ManifestsPlan(found, ManifestRewrite(_target(found, target_size), chosen), branch)


def rewrite_manifests(table: CatalogTable, rewrite: ManifestRewrite, branch: str) -> ManifestsRewritten:
    """Write manifests anew and commit them; commits nothing if no manifest would change."""
    table.refresh()
    name = ".".join(table.name())
    if not rewrite.choose(live_manifests(table, branch)):
        return ManifestsRewritten(name)
    publish(table, FileChanges(operation=Operation.REPLACE, branch=branch, manifest_rewrite=rewrite))
    head = table.metadata.snapshot_by_name(branch)
    assert head is not None
    assert head.summary is not None
    counts = head.summary.additional_properties
    return ManifestsRewritten(
        name, int(counts["manifests-replaced"]), int(counts["manifests-created"]), head.snapshot_id
    )


def merging(table: CatalogTable) -> ManifestRewrite:
    """For the end of a compaction: manifests of every spec, but only if they become fewer."""
    return ManifestRewrite(_target(table, None), only_fewer=True)


def live_manifests(table: CatalogTable, branch: str) -> list[ManifestFileV3]:
    head = table.metadata.snapshot_by_name(branch)
    found = head.manifests(table.io) if head is not None else []
    return [
        manifest
        for manifest in found
        if isinstance(manifest, ManifestFileV3) and (manifest.has_added_files() or manifest.has_existing_files())
    ]


def _target(table: CatalogTable, given: int | None) -> int:
    if given is not None and given < 1:
        raise ConfigError(f"the target size of manifests is {given}, expected 1 or more")
    found: int = given or value_of(table.metadata.properties, MERGE_TARGET_SIZE, 8 << 20)
    return found
