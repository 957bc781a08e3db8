"""What a check found: figures to be told, and violations of what is promised."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

MOST: Final = 40  # of one kind are told in full


@dataclass
class Verdict:
    """Figures and violations; no violation means that every promise was kept."""

    figures: dict[str, Any] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def violated(self, kind: str, what: str) -> None:
        self.kinds[kind] += 1
        if self.kinds[kind] <= MOST:
            self.violations.append(f"{kind}: {what}")

    def __str__(self) -> str:
        return "\n".join([str(dict(self.kinds)), *self.violations])
