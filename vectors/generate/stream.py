"""What the generators of AGS1 vectors share: a Stream to describe, and `case` to file it.

    @case
    def trailing_byte() -> Stream:
        '''One more byte than the trusted length.'''
        return Stream(HEADER, hello(), "hex 00", length=41, expect="TrailingBytesError")

The name of the function is the name of the vector, its docstring the `about` line. A payload
that is small enough is written out in hex; any other stays the recipe that it was made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vectors.recipe import BLOCK, build, measure
from vectors.text import Vector, wrap_hex

if TYPE_CHECKING:
    from collections.abc import Callable

# The key, AAD prefix and nonce of the known answers.
KEY = b"0123456789012345"
AAD_PREFIX = b"1234567890123456"
COUNTING = bytes(range(12)).hex()
HEADER = "hex 4147533100001000"
OWN_LENGTH = -1  # what the payload really has

OPENSSL = "OpenSSL's streaming GCM (vectors/generate)"
SCRIPT = "an independent script; the same bytes from OpenSSL's streaming GCM"
JDK = "an independent script and the cipher of JDK 17; the same bytes from OpenSSL's streaming GCM"

_HEX_UP_TO = 256


class Stream:
    """One stream, how a reader comes to it, and what it must make of it.

    `plain` is what a good stream holds; `released`, what a reader may have handed out before
    it met the failure of a bad one: whole blocks that authenticate, and nothing else.
    """

    def __init__(
        self,
        *recipe: str,
        expect: str = "success",
        key: bytes = KEY,
        aad_prefix: bytes | None = AAD_PREFIX,
        length: int | None = OWN_LENGTH,
        plain: str | None = None,
        released: str | None = None,
        allow_missing_length: bool = False,
        sealed_with: tuple[bytes, bytes] | None = None,
        source: str = OPENSSL,
        known_answer: str | None = None,
    ) -> None:
        self.recipe = "\n".join(recipe)
        self.expect = expect
        self.key = key
        self.aad_prefix = aad_prefix
        self.plain = plain
        self.released = released
        self.allow_missing_length = allow_missing_length
        self.source = source
        self._seal = sealed_with or (key, aad_prefix or b"")
        self.stored_length, self.sha256 = measure(self.recipe, *self._seal)
        self.length = self.stored_length if length == OWN_LENGTH else length
        if known_answer and known_answer not in (self.sha256, self._payload().hex()):
            raise ValueError(f"{self.recipe!r} does not give the known answer {known_answer}")

    def _payload(self) -> bytes:
        return b"".join(build(self.recipe, *self._seal))

    def vector(self, name: str, about: str) -> Vector:
        fields = {
            "about": about,
            "source": self.source,
            "expect": self.expect,
            "key": self.key.hex(),
            "aad-prefix": None if self.aad_prefix is None else self.aad_prefix.hex(),
            "length": None if self.length is None else str(self.length),
            "allow-missing-length": "yes" if self.allow_missing_length else None,
            "plaintext": self.plain,
            "released": self.released,
        }
        header = {field: value for field, value in fields.items() if value is not None}
        if self.stored_length <= _HEX_UP_TO:
            return Vector(name, header | {"payload": "hex"}, wrap_hex(self._payload()))
        if self._seal != (self.key, self.aad_prefix or b""):
            raise ValueError(f"{name}: a recipe seals with the vector's own key and AAD prefix")
        return Vector(name, header | {"payload": "recipe", "sha256": self.sha256}, self.recipe)


class Cases:
    """The vectors of one module, in the order of their definition."""

    def __init__(self) -> None:
        self.makers: list[Callable[[], Stream]] = []

    def __call__(self, maker: Callable[[], Stream]) -> Callable[[], Stream]:
        self.makers.append(maker)
        return maker

    def vectors(self) -> list[Vector]:
        # An underscore at either end keeps a name apart from a helper's, or lets it begin with a digit.
        return [make().vector(f"ags1/{make.__name__.strip('_')}", str(make.__doc__)) for make in self.makers]


def seal(index: int, nonce: str, plain: str) -> str:
    return f"seal {index} {nonce} {plain}".rstrip()


def nonce(byte: int) -> str:
    return f"{byte:02x}" * 12


def block(index: int) -> str:
    """A whole block of the counting plaintext, at its own place."""
    return seal(index, nonce(index + 1), f"count[{index * BLOCK}:{(index + 1) * BLOCK}]")


def tail(index: int, length: int = 5) -> str:
    """A short last block of the counting plaintext."""
    return seal(index, nonce(index + 1), f"count[{index * BLOCK}:{index * BLOCK + length}]")


def hello() -> str:
    return seal(0, COUNTING, b"hello".hex())


def whole(blocks: int, rest: int = 0) -> str:
    """The counting plaintext up to here."""
    return f"count[0:{blocks * BLOCK + rest}]"
