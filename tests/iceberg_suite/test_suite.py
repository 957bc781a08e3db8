"""Iceberg's own tests of its Spark connector, of the published jars, on sealberg's catalog (see `runner.py`).

    Maven brings the jars once ──> one JVM: JUnit, a metastore, Spark ──> what became of each test ──> expected.toml

Some of each kind run in `make test`, all in `make deep`. Not run: classes that use no catalog of Spark (readers,
writers, configurations, Java's own actions), those of Iceberg's session catalog and of its REST server, and four whose
features sealberg has not (storage-partitioned joins, functions in filters).

To look at one test, with PYTHONPATH=tests: python -m iceberg_suite.runner sql.TestSelect#testSelect
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from iceberg_suite.expected import read_expected
from iceberg_suite.runner import Settings, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.server]

PATIENCE_S: Final = 3500.0

SOME: Final = {
    "SELECT": ["sql.TestSelect"],
    "DELETE": [
        "sql.TestDeleteFrom",
        "extensions.TestMergeOnReadDelete#testDeleteWithoutCondition",
        "extensions.TestMergeOnReadDelete#testDeleteWithInAndNotInConditions",
        "extensions.TestMergeOnReadDelete#testDeleteWithPartitionedTable",
        "extensions.TestMergeOnReadDelete#testDeleteWithFilterOnNestedColumn",
        "extensions.TestMergeOnReadDelete#testDeleteWithScalarSubquery",
        "extensions.TestMergeOnReadDelete#testDeleteToWapBranch",
        "extensions.TestMergeOnReadDelete#testUnpartitionedPositionDeletesAreMaintainedDuringDelete",
    ],
    "UPDATE": [
        "extensions.TestCopyOnWriteUpdate#testExplain",
        "extensions.TestCopyOnWriteUpdate#testUpdateWithAlias",
        "extensions.TestCopyOnWriteUpdate#testUpdateAlignsAssignments",
        "extensions.TestCopyOnWriteUpdate#testUpdateModifiesNullStruct",
        "extensions.TestCopyOnWriteUpdate#testUpdateWithMultiColumnInSubquery",
        "extensions.TestCopyOnWriteUpdate#testUpdateWithConflictingAssignments",
        "extensions.TestCopyOnWriteUpdate#testUpdateWithInvalidUpdates",
        "extensions.TestCopyOnWriteUpdate#testUpdateToWAPBranch",
    ],
    "MERGE": [
        "extensions.TestMergeOnReadMerge#testMergeEmptyTable",
        "extensions.TestMergeOnReadMerge#testMergeInsertOnly",
        "extensions.TestMergeOnReadMerge#testMergeWithOnlyDeleteClause",
        "extensions.TestMergeOnReadMerge#testMergeWithAllCausesWithExplicitColumnSpecification",
        "extensions.TestMergeOnReadMerge#testMergeWithMultipleConditionalNotMatchedActions",
        "extensions.TestMergeOnReadMerge#testMergeWithOneMatchingBranchButMultipleSourceRowsForTargetRow",
        "extensions.TestMergeOnReadMerge#testMergeWithOneNotMatchedBySourceClause",
        "extensions.TestMergeOnReadMerge#testMergeWithNullSafeEquals",
        "extensions.TestMergeOnReadMerge#testMergeWithConflictingUpdates",
        "extensions.TestMergeOnReadMerge#testSelfMerge",
    ],
    "CREATE, REPLACE": ["sql.TestCreateTable", "sql.TestCreateTableAsSelect", "sql.TestNamespaceSQL"],
    "ALTER": [
        "sql.TestAlterTable",
        "extensions.TestAlterTableSchema",
        "extensions.TestSetWriteDistributionAndOrdering",
    ],
    "partitions": ["extensions.TestAlterTablePartitionFields", "sql.TestPartitionedWrites"],
    "metadata tables": ["source.TestMetadataTablesWithPartitionEvolution"],
    "branches": ["extensions.TestBranchDDL", "extensions.TestTagDDL", "sql.TestUnpartitionedWritesToBranch"],
    "streams": [
        "source.TestStructuredStreamingRead3#testReadStreamFromEmptyTable",
        "source.TestStructuredStreamingRead3#testReadStreamOnIcebergThenAddData",
        "source.TestStructuredStreamingRead3#testReadingStreamFromTimestampOfExistingSnapshot",
        "source.TestStructuredStreamingRead3#testReadStreamWithSnapshotTypeDeleteErrorsOut",
        "source.TestStructuredStreamingRead3#testReadStreamWithSnapshotTypeReplaceIgnoresReplace",
        "source.TestStructuredStreamingRead3#testReadStreamWithMaxRows2",
    ],
    "procedures": [
        "extensions.TestExpireSnapshotsProcedure",
        "extensions.TestPublishChangesProcedure",
        "extensions.TestRollbackToSnapshotProcedure",
        "extensions.TestSetCurrentSnapshotProcedure",
    ],
    "keys": ["sql.TestTableEncryption", "sql.TestCTASEncryption"],
}

ALL: Final = {
    "queries": [
        "TestFunctionCatalog",
        "extensions.TestCachedTableRefresh",
        "extensions.TestIncrementallyConstructedQueries",
        "extensions.TestRepeatedTableAccess",
        "extensions.TestTempViewRefresh",
        "source.TestDataSourceOptions",
        "source.TestRuntimeFiltering",
        "source.TestSparkReadMetrics",
        "source.TestSparkStagedScan",
        "source.TestSparkTable",
        "sql.TestAggregatePushDown",
        "sql.TestFilterPushDown",
        "sql.TestSelect",
        "sql.TestSparkBucketFunction",
        "sql.TestSparkDaysFunction",
        "sql.TestSparkHoursFunction",
        "sql.TestSparkMonthsFunction",
        "sql.TestSparkTruncateFunction",
        "sql.TestSparkYearsFunction",
    ],
    "definitions": [
        "TestSparkCatalogOperations",
        "extensions.TestAlterTablePartitionFields",
        "extensions.TestAlterTableSchema",
        "extensions.TestSetWriteDistributionAndOrdering",
        "extensions.TestViews",
        "sql.TestAlterTable",
        "sql.TestCTASEncryption",
        "sql.TestCreateTable",
        "sql.TestCreateTableAsSelect",
        "sql.TestDropTable",
        "sql.TestNamespaceSQL",
        "sql.TestRefreshTable",
        "sql.TestTableEncryption",
        "sql.TestTimestampWithoutZone",
        "sql.TestUniqueTableLocation",
    ],
    "writes": [
        "extensions.TestConflictValidation",
        "extensions.TestMergeSchemaEvolution",
        "extensions.TestRequiredDistributionAndOrdering",
        "extensions.TestWriteAborts",
        "source.TestCompressionSettings",
        "source.TestDataFrameWriterV2",
        "source.TestDataFrameWriterV2Coercion",
        "source.TestRequiredDistributionAndOrdering",
        "source.TestSparkWriteMetrics",
        "sql.TestDeleteFrom",
        "sql.TestPartitionedWrites",
        "sql.TestPartitionedWritesAsSelect",
        "sql.TestSparkDefaultValues",
        "sql.TestUnpartitionedWrites",
        "variant.TestVariantShredding",
    ],
    "branches": [
        "extensions.TestBranchDDL",
        "extensions.TestPartitionedWritesToWapBranch",
        "extensions.TestReplaceBranch",
        "extensions.TestTagDDL",
        "sql.TestPartitionedWritesToBranch",
        "sql.TestUnpartitionedWritesToBranch",
    ],
    "procedures that write": [
        "extensions.TestAddFilesProcedure",
        "extensions.TestExpireSnapshotsProcedure",
        "extensions.TestMigrateTableProcedure",
        "extensions.TestRemoveOrphanFilesProcedure",
        "extensions.TestRewriteDataFilesProcedure",
        "extensions.TestRewriteManifestsProcedure",
        "extensions.TestRewritePositionDeleteFiles",
        "extensions.TestRewritePositionDeleteFilesProcedure",
        "extensions.TestRewriteTablePathProcedure",
        "extensions.TestSnapshotTableProcedure",
    ],
    "procedures": [
        "actions.TestComputePartitionStatsAction",
        "actions.TestComputeTableStatsAction",
        "extensions.TestAncestorsOfProcedure",
        "extensions.TestCherrypickSnapshotProcedure",
        "extensions.TestComputePartitionStatsProcedure",
        "extensions.TestComputeTableStatsProcedure",
        "extensions.TestCreateChangelogViewProcedure",
        "extensions.TestFastForwardBranchProcedure",
        "extensions.TestPublishChangesProcedure",
        "extensions.TestRegisterTableProcedure",
        "extensions.TestRollbackToSnapshotProcedure",
        "extensions.TestRollbackToTimestampProcedure",
        "extensions.TestSetCurrentSnapshotProcedure",
    ],
    "metadata tables": [
        "extensions.TestChangelogTable",
        "extensions.TestMetaColumnProjectionWithStageScan",
        "extensions.TestMetadataTables",
        "source.TestMetadataTableReadableMetrics",
        "source.TestMetadataTablesWithPartitionEvolution",
        "source.TestPositionDeletesTable",
    ],
    "streams": ["source.TestStreamingCheckpointHadoopIO", "source.TestStructuredStreamingRead3"],
    "counts of MERGE": ["extensions.TestCopyOnWriteMergeMetrics", "extensions.TestMergeOnReadMergeMetrics"],
}

# The classes of DELETE, UPDATE and MERGE, each with another row of their parameters: files, distribution, branch,
# planning. The rows are 0: Parquet, branch, distributed; 1: Parquet, hash, main, local; 2: Avro, range, branch,
# distributed.
ROWS: Final = {
    "extensions.TestCopyOnWriteDelete": Settings(row=0),
    "extensions.TestCopyOnWriteUpdate": Settings(row=1),
    "extensions.TestCopyOnWriteMerge": Settings(row=1, vectorized=False),
    "extensions.TestMergeOnReadDelete": Settings(row=1),
    "extensions.TestMergeOnReadUpdate": Settings(row=2),
    "extensions.TestMergeOnReadMerge": Settings(row=1),
    # Each test adds a plaintext file with Java.
    "extensions.TestCopyOnWriteWithLineage": Settings(plaintext=True),
    "extensions.TestMergeOnReadWithLineage": Settings(plaintext=True),
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_iceberg_is_content_with_some_of_each_kind(tmp_path: Path) -> None:
    check(tmp_path, [name for names in SOME.values() for name in names], Settings(row=1))


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", ALL)
def test_iceberg_is_content_with_all(tmp_path: Path, part: str) -> None:
    check(tmp_path, ALL[part], Settings(row=1))


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ROWS)
def test_iceberg_is_content_with_rows_of_parameters(tmp_path: Path, name: str) -> None:
    check(tmp_path, [name], ROWS[name])


def check(folder: Path, names: list[str], settings: Settings) -> None:
    """Run these classes and tests, and compare with what is expected of them."""
    complaints = list(read_expected().complaints(names, run(names, folder, settings, patience_s=PATIENCE_S)))
    assert not complaints, "\n".join(complaints)
