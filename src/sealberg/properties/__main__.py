"""Print docs/properties.md."""

from __future__ import annotations

import sys

from sealberg.properties.page import page

sys.stdout.write(page())
