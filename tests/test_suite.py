"""The suite says at its end what it did not test."""

import pytest

pytest_plugins = ["pytester"]


def test_skipped_tests_are_said_in_one_line_with_their_reasons(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_terminal_summary")
    pytester.makepyfile("""
        import pytest

        @pytest.mark.skipif(True, reason="no browser")
        def test_one(): ...

        @pytest.mark.parametrize("number", [1, 2])
        def test_two(number):
            pytest.skip("no right")
    """)
    lines = pytester.runpytest_inprocess("-q").outlines
    (line,) = [line for line in lines if line.startswith("skipped: ")]
    assert "1 (no browser)" in line and "2 (no right)" in line
