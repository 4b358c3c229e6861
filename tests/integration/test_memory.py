"""Memory does not depend on how much text there is, and does not grow with the steps.

A short form: `python -m benchmarks.bench_memory` measures hundreds of megabytes and thousands of steps.
"""

import pytest
from pytest import approx

from benchmarks.bench_memory import measure

pytestmark = pytest.mark.slow


def test_memory_depends_neither_on_the_text_nor_on_the_steps(tmp_path):
    for name in ("little", "much"):
        (tmp_path / name).mkdir()
    (resident, early), (_, late) = measure(tmp_path / "little", 3, steps=400)
    (with_much, _), _ = measure(tmp_path / "much", 9, steps=202)
    assert late - early < 2  # MB
    assert with_much == approx(resident, rel=0.1)
