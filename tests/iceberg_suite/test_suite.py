"""Iceberg's own tests of its Spark connector, of the published jars, on sealberg's catalog (see `runner.py`).

    Maven brings the jars once ──> one JVM: JUnit, a metastore, Spark ──> what became of each test ──> expected.toml

Some of each kind run in `make test`. To look at one test, with PYTHONPATH=tests:
python -m iceberg_suite.runner sql.TestSelect#testSelect
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from iceberg_suite.expected import read_expected
from iceberg_suite.runner import Settings, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.server]

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


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_iceberg_is_content_with_some_of_each_kind(tmp_path: Path) -> None:
    check(tmp_path, [name for names in SOME.values() for name in names], Settings(row=1))


def check(folder: Path, names: list[str], settings: Settings) -> None:
    """Run these classes and tests, and compare with what is expected of them."""
    complaints = list(read_expected().complaints(names, run(names, folder, settings, patience_s=1100)))
    assert not complaints, "\n".join(complaints)
