"""Sweeps from wandb's sweep files, without an account: each point is a process and a run folder of its own."""
