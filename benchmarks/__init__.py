"""Benchmarks. Threads that wait spin as briefly as those of the commands."""

import os

from electra.commands import SPINS

os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # before any of them loads torch
