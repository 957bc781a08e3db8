"""From properties to a client: as in Java, by type, by class, by a third party's entry point."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from sealberg.errors import ConfigError
from sealberg.keys.kms.client import EXTRAS, JAVA_CLASSES, TYPES, KmsClient, WrappedKey, client_from_properties
from sealberg.keys.kms.memory import MemoryKms, UnitestKms

if TYPE_CHECKING:
    from pathlib import Path

KEY = {"encryption.kms.memory.key.hr": "ab" * 16}


@pytest.mark.parametrize("kind", ["memory", "MEMORY", "Memory"])
def test_a_type_is_found_whatever_its_case(kind: str) -> None:
    assert isinstance(client_from_properties({"encryption.kms-type": kind, **KEY}), MemoryKms)


@pytest.mark.parametrize("impl", ["sealberg.keys.kms.memory.MemoryKms", "sealberg.keys.kms.memory:MemoryKms"])
def test_a_class_is_found_by_its_dotted_path(impl: str) -> None:
    assert isinstance(client_from_properties({"encryption.kms-impl": impl, **KEY}), MemoryKms)


def test_class_names_of_java_are_understood() -> None:
    made = client_from_properties({"encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS"})
    assert isinstance(made, UnitestKms)
    assert {"aws", "azure", "gcp"} <= {kind for kind, path in TYPES.items() if path in JAVA_CLASSES.values()}


class NoClient:
    """A class, but no KMS client."""


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"encryption.kms-type": "aws", "encryption.kms-impl": "a"}, r"Cannot set both KMS type \(aws\) and KMS impl"),
        ({}, "Cannot create encryption manager without a key management client"),
        ({"encryption.kms-type": "abacus"}, "Unsupported KMS type: abacus .*known: aws, "),
        ({"encryption.kms-impl": "no.such.Class"}, "Cannot initialize KeyManagementClient, cannot import"),
        ({"encryption.kms-impl": "sealberg.keys.kms.memory.Nothing"}, "no class at sealberg.keys.kms.memory:Nothing"),
        ({"encryption.kms-impl": "nodots"}, "Cannot initialize KeyManagementClient"),
        ({"encryption.kms-impl": f"{__name__}.NoClient"}, "Cannot initialize"),
        ({"encryption.kms-impl": "sealberg.keys.kms.client.TYPES"}, "does not implement KeyManagementClient interface"),
        ({"encryption.kms-impl": "org.apache.iceberg.Unknown"}, "has no counterpart in Python"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_a_client_is_refused_in_the_words_of_java(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        client_from_properties(properties)


def test_a_third_party_registers_a_type_by_an_entry_point(tmp_path: Path) -> None:
    """A package of its own, as pip would leave it: a module and an entry point in the group sealberg.kms."""
    (tmp_path / "abacus_kms.py").write_text(
        "from sealberg.keys.kms.memory import MemoryKms\nclass AbacusKms(MemoryKms):\n    provider = 'abacus'\n"
    )
    info = tmp_path / "abacus_kms-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus-kms\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sealberg.kms]\nabacus = abacus_kms:AbacusKms\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from sealberg.keys.kms.client import client_from_properties\n"
        f"client = client_from_properties({{'encryption.kms-type': 'Abacus', **{KEY!r}}})\n"
        "assert client.unwrap(client.wrap(bytes(16), 'hr'), 'hr') == bytes(16)\n"
        "print(client.provider)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "abacus\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "package"),
    [
        ("aws", "boto3"),
        ("gcp", "google.cloud.kms_v1"),
        ("azure", "azure.core"),
        ("vault", "hvac"),
        ("pkcs11", "pkcs11"),
    ],
)
def test_a_missing_extra_is_one_sentence_with_the_command(kind: str, package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"  # as if it were not installed
        "from sealberg.keys.kms.client import client_from_properties\n"
        "try: client_from_properties({'encryption.kms-type': " + repr(kind) + "})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ConfigError "), done.stdout
    assert f"pip install 'sealberg[{EXTRAS[kind]}]'" in done.stdout
    assert done.stdout.count("\n") == 1


def test_no_client_is_imported_before_it_is_named() -> None:
    heavy = {"boto3", "hvac", "pkcs11", "google.cloud.kms_v1", "azure.keyvault.keys"}
    code = f"import sys, sealberg.keys.kms.client, sealberg.keys.manager; print({heavy!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_wrapped_bytes_keep_their_properties_when_they_are_pickled() -> None:
    import pickle

    again = pickle.loads(pickle.dumps(WrappedKey(b"wrapped", {"azure.key-version": "7"})))
    assert (again, dict(again.properties)) == (b"wrapped", {"azure.key-version": "7"})


def test_a_client_that_says_nothing_of_properties_is_a_configuration_error() -> None:
    class Bare(KmsClient):
        def wrap(self, key: bytes, master_key_id: str) -> bytes:
            return key

        def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
            return wrapped

    with pytest.raises(ConfigError, match="cannot be built from properties"):
        Bare.from_properties({})
    with Bare() as client:
        assert client.describe("hr") == {}
        assert client.rewrap(b"k" * 16, "hr") == b"k" * 16


@pytest.mark.parametrize(
    ("path", "facts", "words"),
    [
        (TYPES["aws"], {"KeyState": "Enabled"}, None),
        (TYPES["aws"], {"KeyState": "Disabled"}, "the key is in the state Disabled"),
        (
            TYPES["aws"],
            {"KeyState": "PendingDeletion", "DeletionDate": "2026-12-24"},
            "the key is in the state PendingDeletion, it will be deleted at 2026-12-24",
        ),
        (TYPES["gcp"], {"primary state": "ENABLED"}, None),
        (
            TYPES["gcp"],
            {"primary state": "DESTROY_SCHEDULED", "primary version": "2", "primary destroy time": "2026-12-24"},
            "the primary version 2 is in the state DESTROY_SCHEDULED, its time of destruction is 2026-12-24",
        ),
        (TYPES["azure"], {"enabled": "true"}, None),
        (TYPES["azure"], {"enabled": "false"}, "the key is disabled"),
        (TYPES["vault"], {"soft_deleted": "false"}, None),
        (TYPES["vault"], {"soft_deleted": "true"}, "the key is soft-deleted"),
        (TYPES["pkcs11"], {"encrypt": "true", "decrypt": "true"}, None),
        (TYPES["pkcs11"], {"encrypt": "false", "decrypt": "false"}, "the key may not encrypt nor decrypt"),
        (TYPES["memory"], {}, None),
    ],
)
def test_a_description_tells_what_is_wrong_with_its_key(path: str, facts: dict[str, str], words: str | None) -> None:
    module, _, name = path.partition(":")
    kind = getattr(import_module(module), name)
    assert kind.trouble_in(kind.__new__(kind), facts) == words
