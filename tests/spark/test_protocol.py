"""Every message of the protocol, as the golden files in vectors/protocol have it; Java's tests read the same files."""

from __future__ import annotations

import json
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import sealberg.spark.protocol
from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.codec import Message, ProtocolError
from sealberg.spark.protocol.scans import PlannedFile, ScanPlan
from sealberg.spark.protocol.writes import WrittenFile

GOLDEN = Path(__file__).resolve().parents[2] / "vectors" / "protocol"
FILES = sorted(GOLDEN.glob("*.json"))
SECRET = "AAECAwQFBgcICQoLDA0ODw=="


def messages() -> dict[str, type[Message]]:
    found: dict[str, type[Message]] = {}
    for module in pkgutil.iter_modules(sealberg.spark.protocol.__path__):
        for value in vars(import_module(f"sealberg.spark.protocol.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Message) and value not in (Message, Request):
                found[value.__name__] = value
    return found


def golden(file: Path) -> tuple[type[Message], list[str], list[dict[str, Any]]]:
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["message"] == file.stem
    return messages()[file.stem], content["optional"], content["examples"]


def test_every_message_has_a_golden_file_and_every_file_a_message() -> None:
    assert {file.stem for file in FILES} == messages().keys()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_message_is_read_and_written_again(file: Path) -> None:
    kind, _, examples = golden(file)
    for example in examples:
        written = kind.from_json(example).to_json()
        assert written == example
        assert json.loads(json.dumps(written)) == example


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_unknown_and_missing_fields_are_refused_by_name(file: Path) -> None:
    kind, optional, examples = golden(file)
    name, whole = kind.__name__, examples[0]
    with pytest.raises(ProtocolError, match=f"^{name} has an unknown field surprise"):
        kind.from_json({**whole, "surprise": 1})
    for field in whole:
        left = {key: value for key, value in whole.items() if key != field}
        if field in optional:
            assert kind.from_json(left).to_json() == left
        elif field == "type" and kind.TAG:
            with pytest.raises(ProtocolError, match=f"^{name}.type is not {kind.TAG}"):
                kind.from_json(left)
        else:
            with pytest.raises(ProtocolError, match=f"^{name} lacks the field {field}"):
                kind.from_json(left)
    with pytest.raises(ProtocolError, match=f"^{name} is not an object but a list"):
        kind.from_json([])


@pytest.mark.parametrize(
    ("kind", "field", "value", "message"),
    [
        ("TableHandle", "table", "hr.pay", "TableHandle.table is not an array but a str"),
        ("TableHandle", "schema-id", True, "TableHandle.schema-id is not a whole number but a bool"),
        ("TableHandle", "schema-id", "0", "TableHandle.schema-id is not a whole number but a str"),
        ("TableHandle", "past", 0, "TableHandle.past is not a boolean but a int"),
        ("TableHandle", "branch", None, "TableHandle.branch is not a string but a NoneType"),
        ("WrittenFile", "key", "not base64!", "WrittenFile.key is not base64"),
        ("WriteRequest", "mode", "rows", "WriteRequest.mode is not append or overwrite"),
        ("ScanRequest", "filters", [{"type": "like"}], "ScanRequest.filters is none of the types true, and"),
        ("ScanRequest", "columns", {"type": "map"}, "ScanRequest.columns is not a schema but a dict"),
        ("CompareFilter", "value", [1], "CompareFilter.value is not null, a boolean, a number, a string or a decimal"),
        ("CompareFilter", "value", {"decimal": "x"}, "CompareFilter.value is not a decimal"),
        ("StoreSettings", "settings", {"a": 1}, "StoreSettings.settings.a is not a string but a int"),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(kind: str, field: str, value: Any, message: str) -> None:
    found, _, examples = golden(GOLDEN / f"{kind}.json")
    with pytest.raises(ProtocolError) as error:
        found.from_json({**examples[0], field: value})
    assert str(error.value).startswith(message)


def test_no_error_quotes_a_value() -> None:
    _, _, examples = golden(GOLDEN / "WrittenFile.json")
    for field in examples[0]:
        with pytest.raises(ProtocolError) as error:
            WrittenFile.from_json({**examples[0], field: {"x": SECRET}})
        assert SECRET not in str(error.value)


def test_no_repr_shows_a_key() -> None:
    for kind in (PlannedFile, WrittenFile):
        _, _, examples = golden(GOLDEN / f"{kind.__name__}.json")
        message = kind.from_json(examples[0])
        assert message.key is not None
        assert repr(message.key)[2:-1] not in repr(message)


def test_columns_of_different_lengths_are_refused() -> None:
    _, _, examples = golden(GOLDEN / "ScanPlan.json")
    files = {**examples[0]["files"], "record-count": [1]}
    with pytest.raises(ProtocolError, match=r"ScanPlan\.files has columns of different lengths"):
        ScanPlan.from_json({**examples[0], "files": files})


def test_a_plan_of_many_files_has_the_names_of_its_fields_once() -> None:
    files = tuple(PlannedFile(f"s3://lake/{number}", 10, 1, number, 7, b"k" * 16, b"a" * 16) for number in range(1000))
    text = json.dumps(ScanPlan("python3", files).to_json(), separators=(",", ":"))
    assert text.count("record-count") == 1
    assert "deleted-positions" not in text
    assert ScanPlan.from_json(json.loads(text)).files == files
