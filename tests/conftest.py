"""What holds for all tests: Hypothesis judges answers, not the speed of a machine that others use too."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("sealberg", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sealberg")
