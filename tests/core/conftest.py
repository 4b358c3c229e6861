"""A batch for the networks of `network_config`."""

import pytest

from tests.core.helpers import LONGEST, make_batch


@pytest.fixture
def batch():
    """Two rows of the longest length, without noise; the second ends in padding."""
    two_rows = make_batch(LONGEST, 15)
    del two_rows["mask_noise"]
    return two_rows
