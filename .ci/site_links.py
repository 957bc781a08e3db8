"""A hook of mkdocs: links that leave docs/ (to the sources, to CONTRIBUTING.md) become plain text on the site.

In the repository those links work; the site has only docs/.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = posixpath.dirname(page.file.src_uri)

    def inside(found: re.Match[str]) -> str:
        target = found["target"].partition("#")[0]
        if "://" in target or not posixpath.normpath(posixpath.join(folder, target)).startswith(".."):
            return found[0]
        return found["text"]

    return LINK.sub(inside, markdown)
