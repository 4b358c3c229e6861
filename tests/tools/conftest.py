"""Runs that the tools read."""

from tests.pretraining.conftest import finished_run  # noqa: F401
