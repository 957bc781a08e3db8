"""An Avro file of a form has the bytes that PyIceberg's own writer makes."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any

import pytest
from pyiceberg.avro.file import SYNC_SIZE, AvroOutputFile
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.types import IntegerType, NestedField, StringType, StructType

from sealberg.metadata import java_json
from sealberg.metadata.avro_output import AvroForm, FormedAvroFile
from sealberg.metadata.encoded_entries import EntryEncoder
from sealberg.metadata.schema_json import schema_json

PARTITION = StructType(NestedField(1000, "p", StringType(), required=False))


class Kept(BytesIO):
    def close(self) -> None:
        """The bytes are read after the file is closed."""


class Output:
    """An OutputFile in memory."""

    def __init__(self) -> None:
        self.stream = Kept()

    def create(self, overwrite: bool = False) -> Kept:
        return self.stream


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed", "null"])
@pytest.mark.parametrize(
    "form", [AvroForm(MANIFEST_LIST_FILE_SCHEMAS[3], "manifest_file"), EntryEncoder(PARTITION).form]
)
def test_a_header_has_the_bytes_of_pyiceberg(form: AvroForm, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda size: b"s" * size)
    told = {"format-version": "3", "sequence-number": "7"}
    ours, theirs = Output(), Output()
    whole = {**told, "iceberg.schema": java_json.dumps(schema_json(form.schema)), "avro.codec": codec}
    our_output: Any = ours
    their_output: Any = theirs
    with (
        FormedAvroFile[Any](our_output, form, told, codec),
        AvroOutputFile[Any](their_output, form.schema, form.name, metadata=whole),
    ):
        pass
    assert ours.stream.getvalue() == theirs.stream.getvalue()
    assert ours.stream.getvalue().endswith(b"s" * SYNC_SIZE)


def test_partition_types_that_differ_do_not_share_a_form() -> None:
    other = StructType(NestedField(1000, "p", IntegerType(), required=False))
    assert EntryEncoder(PARTITION).form.avro_json != EntryEncoder(other).form.avro_json
