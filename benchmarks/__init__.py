"""Benchmarks. Threads that wait spin as briefly as those of the commands, see electra/runtime/spinning.py."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "5000")  # before any of them loads torch
