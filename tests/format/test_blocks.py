"""AES-GCM and the blocks of a stream: what opens, what does not, and what is left behind."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM
from hypothesis import given
from hypothesis import strategies as st

from kit.examples import examples
from sealberg.errors import AuthenticationError, ConfigError, FormatError, TooManyBlocksError
from sealberg.format import aes_gcm
from sealberg.format.ags1 import MAX_BLOCKS, BlockCipher

if TYPE_CHECKING:
    from collections.abc import Callable

many = examples(3)

keys = st.sampled_from([16, 24, 32]).flatmap(lambda n: st.binary(min_size=n, max_size=n))
aads = st.none() | st.binary(max_size=40)
plains = st.binary(max_size=200)
indexes = st.integers(0, 300) | st.integers(0, MAX_BLOCKS - 1)
KEY = bytes(range(0xA0, 0xB0))


def seal_block(cipher: BlockCipher, index: int, plain: bytes) -> bytearray:
    out = bytearray(len(plain) + 28)
    cipher.seal_into(index, plain, memoryview(out))
    return out


def open_block(cipher: BlockCipher, index: int, sealed: bytes | bytearray) -> bytes:
    out = bytearray(b"\xff" * (len(sealed) - 28))
    try:
        cipher.open_into(index, memoryview(sealed), memoryview(out))
    except AuthenticationError:
        assert not any(out), "a block that failed must leave zeros, not what it decrypted to"
        raise
    return bytes(out)


def openssl(key: bytes, sealed: bytes | bytearray, aad: bytes) -> bytes:
    """The same cipher through another interface."""
    decryptor = Cipher(AES(key), GCM(bytes(sealed[:12]), bytes(sealed[-16:]))).decryptor()
    decryptor.authenticate_additional_data(aad)
    return decryptor.update(bytes(sealed[12:-16])) + decryptor.finalize()


# -- aes_gcm ------------------------------------------------------------------------------------


@many
@given(keys, plains, aads)
def test_opens_what_was_sealed(key: bytes, plain: bytes, aad: bytes | None) -> None:
    sealed = aes_gcm.seal(key, plain, aad)
    assert len(sealed) == len(plain) + aes_gcm.OVERHEAD
    assert aes_gcm.open(key, sealed, aad) == plain
    assert openssl(key, sealed, aad or b"") == plain


@many
@given(keys, plains)
def test_no_aad_and_an_empty_one_are_the_same(key: bytes, plain: bytes) -> None:
    assert aes_gcm.open(key, aes_gcm.seal(key, plain, None), b"") == plain
    assert aes_gcm.open(key, aes_gcm.seal(key, plain, b""), None) == plain


@many
@given(st.data(), plains, aads)
def test_any_single_flipped_bit_is_noticed(data: st.DataObject, plain: bytes, aad: bytes | None) -> None:
    sealed = bytearray(aes_gcm.seal(KEY, plain, aad))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(AuthenticationError):
        aes_gcm.open(KEY, sealed, aad)


@many
@given(keys, aads.filter(bool), plains)
def test_opens_with_its_own_key_and_aad_only(key: bytes, aad: bytes, plain: bytes) -> None:
    sealed = aes_gcm.seal(KEY, plain, aad)
    for wrong_key, wrong_aad in ((key, aad), (KEY, aad[:-1]), (KEY, aad + b"\0"), (KEY, None)):
        if (wrong_key, wrong_aad) != (KEY, aad):
            with pytest.raises(AuthenticationError):
                aes_gcm.open(wrong_key, sealed, wrong_aad)


@pytest.mark.parametrize("length", [0, 1, 27])
def test_less_than_a_nonce_and_a_tag_is_no_sealed_secret(length: int) -> None:
    with pytest.raises(FormatError, match=str(length)):
        aes_gcm.open(KEY, bytes(length))


@pytest.mark.parametrize("length", [0, 1, 15, 17, 23, 25, 31, 33, 64])
@pytest.mark.parametrize(
    "use",
    [
        lambda key: aes_gcm.seal(key, b""),
        lambda key: aes_gcm.open(key, bytes(28)),
        BlockCipher,
    ],
    ids=["seal", "open", "BlockCipher"],
)
def test_aes_has_three_key_lengths(use: Callable[[bytes], object], length: int) -> None:
    with pytest.raises(ConfigError, match=f"Invalid key length: {length} "):
        use(bytes(length))


def test_no_nonce_comes_twice() -> None:
    cipher = BlockCipher(KEY)
    nonces = {aes_gcm.seal(KEY, b"")[:12] for _ in range(500)}
    nonces |= {bytes(seal_block(cipher, 0, b"")[:12]) for _ in range(500)}
    assert len(nonces) == 1000


def test_failures_and_reprs_show_no_key() -> None:
    with pytest.raises(AuthenticationError) as caught:
        aes_gcm.open(KEY, bytes(28))
    with pytest.raises(AuthenticationError) as of_block:
        open_block(BlockCipher(KEY), 0, bytes(28))
    shown = repr(BlockCipher(KEY, KEY))
    for error in (caught.value, of_block.value):
        assert error.__cause__ is None
        assert error.__suppress_context__
        shown += repr(error) + "".join(traceback.format_exception(error))
    assert KEY.hex() not in shown
    assert repr(KEY)[2:-1] not in shown


# -- blocks -------------------------------------------------------------------------------------


@many
@given(keys, aads, plains, indexes)
def test_block_is_what_the_specification_says(key: bytes, prefix: bytes | None, plain: bytes, index: int) -> None:
    cipher = BlockCipher(key, prefix)
    sealed = seal_block(cipher, index, plain)
    assert openssl(key, sealed, (prefix or b"") + index.to_bytes(4, "little")) == plain
    assert open_block(cipher, index, sealed) == plain


@many
@given(plains, aads, indexes, indexes)
def test_block_opens_only_at_its_own_index(plain: bytes, prefix: bytes | None, index: int, other: int) -> None:
    cipher = BlockCipher(KEY, prefix)
    sealed = seal_block(cipher, index, plain)
    for wrong in {other, index + 1, index ^ 0x100, swap(index)} - {index}:
        with pytest.raises(AuthenticationError, match=f"block {wrong} "):
            open_block(cipher, wrong, sealed)


def swap(index: int) -> int:
    """What a big-endian reader would take the index for."""
    return int.from_bytes(index.to_bytes(4, "little"), "big")


@many
@given(st.data(), plains)
def test_block_with_any_byte_changed_leaves_zeros(data: st.DataObject, plain: bytes) -> None:
    cipher = BlockCipher(KEY, b"prefix")
    sealed = seal_block(cipher, 7, plain)
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(AuthenticationError):
        open_block(cipher, 7, sealed)


@many
@given(st.data(), plains, st.binary(max_size=20))
def test_block_opens_in_its_own_file_only(data: st.DataObject, plain: bytes, prefix: bytes) -> None:
    sealed = seal_block(BlockCipher(KEY, prefix), 0, plain)
    other = data.draw(st.binary(max_size=20).filter(lambda found: found != prefix))
    with pytest.raises(AuthenticationError):
        open_block(BlockCipher(KEY, other), 0, sealed)


def test_index_after_the_last_cannot_be_sealed() -> None:
    cipher = BlockCipher(KEY)
    assert open_block(cipher, MAX_BLOCKS - 1, seal_block(cipher, MAX_BLOCKS - 1, b"last")) == b"last"
    with pytest.raises(TooManyBlocksError):
        seal_block(cipher, MAX_BLOCKS, b"one too many")
