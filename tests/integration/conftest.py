"""Whole runs end as shortly as in tests/pretraining."""

from tests.pretraining.conftest import short_ends as short_ends
