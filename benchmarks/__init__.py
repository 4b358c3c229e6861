"""Benchmarks. Threads that wait spin as briefly as those of the commands (`SPINS` of electra/tools/commands.py)."""

import os

# Before any of them loads torch. The package is not imported here: those that compare commits import that of each.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
