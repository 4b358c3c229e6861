"""Whole runs leave the same small report as in tests/pretraining."""

from tests.pretraining.conftest import one_panel as one_panel
