"""Avro files of a few forms: what all files of one form have in common is made once.

    AvroForm(schema, name)  ──>  the writer of its records, and the texts of its schema for Avro and for Iceberg
    FormedAvroFile          PyIceberg's AvroOutputFile with them: the same bytes

A commit writes a handful of manifests and lists, and PyIceberg would convert the same schema for each of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self, TypeVar

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, CODEC_MAPPING_ICEBERG_TO_AVRO
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader, AvroOutputFile
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from sealberg.metadata import java_json
from sealberg.metadata.schema_json import schema_json

if TYPE_CHECKING:
    from pyiceberg.avro.writer import Writer
    from pyiceberg.io import OutputFile
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import StructProtocol

D = TypeVar("D", bound="StructProtocol")
_HEADER: Final = construct_writer(META_SCHEMA)


@dataclass(frozen=True)
class AvroForm:
    """The schema of the records of an Avro file, and its name."""

    schema: Schema = field(repr=False)
    name: str

    @cached_property
    def writer(self) -> Writer:
        return construct_writer(self.schema)

    @cached_property
    def avro_json(self) -> str:
        return json.dumps(AvroSchemaConversion().iceberg_to_avro(self.schema, schema_name=self.name))

    @cached_property
    def iceberg_json(self) -> str:
        return java_json.dumps(schema_json(self.schema))


class FormedAvroFile(AvroOutputFile[D]):
    """An Avro file of a form; the header also has the Iceberg schema, as Java writes it."""

    def __init__(self, output_file: OutputFile, form: AvroForm, metadata: dict[str, str], codec: str) -> None:
        self.output_file, self.form = output_file, form
        self.file_schema, self.schema_name, self.writer = form.schema, form.name, form.writer
        self.sync_bytes = os.urandom(SYNC_SIZE)
        self.metadata = {**metadata, "iceberg.schema": form.iceberg_json, AVRO_CODEC_KEY: codec}

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def _write_header(self) -> None:
        named = self.metadata[AVRO_CODEC_KEY]
        codec = CODEC_MAPPING_ICEBERG_TO_AVRO.get(named) or named
        meta = {**self.metadata, "avro.schema": self.form.avro_json, AVRO_CODEC_KEY: codec}
        _HEADER.write(self.encoder, AvroFileHeader(MAGIC, meta, self.sync_bytes))
