"""How many examples Hypothesis tries, as a share of those of the profile: `quick`, `ci` or `deep` (tests/conftest.py).

@examples(0.3)      a test whose examples take long: 30 of 100
@examples(3)        one whose examples take no time
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(share: float, **more: Any) -> settings:
    return settings(max_examples=max(1, round(share * settings().max_examples)), **more)
