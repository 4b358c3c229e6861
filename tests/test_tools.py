"""Tools beside the scripts start as files, too, from any folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = [
    path
    for folder in ("benchmarks", "docs", "tests")
    for path in sorted((ROOT / folder).glob("*.py"))
    if '\nif __name__ == "__main__":' in path.read_text(encoding="utf-8")
]
FORKED = """
import os, runpy, sys, datasets, torch, transformers
for path in sys.argv[1:]:
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0, path
    else:
        sys.path[0], sys.argv = os.path.dirname(path), [path, "--help"]
        runpy.run_path(path, run_name="__main__")
"""
"""Each in a process of its own, which has the large libraries from its parent."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_every_tool_starts_as_a_file(tmp_path: Path) -> None:
    assert len(TOOLS) > 8
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", FORKED, *map(str, TOOLS)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("usage: ") == len(TOOLS), done.stderr
