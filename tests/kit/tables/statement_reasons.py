"""Reasons for which the outcome of a statement on our tables may differ from Iceberg Java's."""

from __future__ import annotations

from typing import Final

REASONS: Final = {
    "Not yet: changelog views": "The procedure `create_changelog_view` is missing.",
    "Not yet: views": "Views are refused. Temporary views work.",
    "Not yet: types": "`variant` and `void` have no counterpart in sealberg's tables, and ORC files are not written.",
    "Not yet: other": "A new location for a table.",
    "Encrypted tables": (
        "They are of format version 3 only. Partition values are not in the names of folders, which are not encrypted. "
        "`key_metadata` is never shown; `t.keys` shows the ids of keys."
    ),
    "Refused, where Java ignores": (
        "An unknown option or snapshot, a collation, a tag that is a branch, a point in time of a metadata table that "
        "is about all snapshots: Java ignores what it was told."
    ),
    "Read options": "Java 1.12 refuses the options `snapshot-id`, `as-of-timestamp` and `tag`; here they work.",
    "Java is wrong: NaN, infinity and -0.0": (
        "To Spark, NaN is greater than every number and -0.0 equals 0.0. Java's filters lose such rows."
    ),
    "Java is wrong: NULL in a partition": (
        "A `DELETE` by a range of time, or by `<>`, deletes rows whose partition value is NULL, too."
    ),
    "Java is wrong: names of metadata columns": (
        "Java creates a table with a column called `_file` or the like, and cannot read the table afterwards."
    ),
    "Java is wrong: other": "A statement that Java's connector fails at, or answers wrongly.",
    "Time columns": "sealberg has columns of type `time`, Java's connector has not.",
    "History": (
        "A statement that changes nothing makes no snapshot here; Java makes an empty one. `REPLACE TABLE` without "
        "a query makes one here that deletes the rows; Java leaves the table without a current snapshot. A snapshot "
        "that only deletes by writing files anew is an `overwrite` here."
    ),
    "Values of properties": (
        "A value is checked before it is committed; Java refuses the first statement that uses it "
        "([0087](decisions/0087-values-of-properties.md))."
    ),
    "Shown properties": (
        "Java shows properties that it makes up (`format`, `current-snapshot-id`), and sets a codec and an owner "
        "when it creates a table. sealberg shows the table's properties, with the key id."
    ),
    "Catalogs": "Namespaces are the catalog's: a SQL database here, a map in memory there.",
    "Statistics": (
        "NaN values are not counted here, and a column with NaN has no bounds. Java's snapshot summaries name the "
        "engine. Split offsets are in our manifests."
    ),
}
