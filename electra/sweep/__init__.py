"""Sweeps: the files of wandb's sweeps, run without an account; each point is a process and a folder of its own."""
