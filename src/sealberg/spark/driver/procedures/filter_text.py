"""A filter of Spark's SQL in the words of PyIceberg's parser.

    p = "b" AND `odd name` < DATE '2026-01-01'   ──>   p = 'b' AND "odd name" < '2026-01-01'

Literals and names are respelled; what PyIceberg's parser does not know, such as a function, it refuses.
"""

from __future__ import annotations

import re
from typing import Final

_RESPELLED: Final = re.compile(
    r"""(?P<typed>\b(?:DATE|TIMESTAMP)\s*)?(?P<quoted>'(?:[^']|'')*'|"[^"]*")|`(?P<name>[^`]+)`""", re.IGNORECASE
)


def filter_text(where: str) -> str:
    """The filter, respelled."""

    def respelled(found: re.Match[str]) -> str:
        if found["name"] is not None:
            return f'"{found["name"]}"'
        text = found["quoted"]
        if text.startswith('"'):
            text = "'" + text[1:-1].replace("'", "''") + "'"
        return text.replace(" ", "T") if found["typed"] else text

    return _RESPELLED.sub(respelled, where)
