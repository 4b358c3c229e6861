"""The console commands of the installed package, such as `electra-pretrain`; the scripts of a checkout do the same."""

from importlib import import_module

from electra.errors import run_script


def _run(module: str) -> None:
    run_script(import_module(module).main)  # imported here: reports and sweeps start without torch


def pretrain() -> None:
    _run("electra.pretraining.run")


def tokenizer() -> None:
    _run("electra.train_tokenizer")


def glue() -> None:
    _run("electra.tasks.glue.task")


def squad() -> None:
    _run("electra.tasks.squad.task")


def tagging() -> None:
    _run("electra.tasks.tagging.task")


def swag() -> None:
    _run("electra.tasks.multiple_choice.task")


def sweep() -> None:
    _run("electra.sweep.__main__")


def report() -> None:
    _run("electra.report.__main__")


def inspect() -> None:
    _run("electra.inspect")


def efficiency() -> None:
    _run("electra.efficiency")


def push() -> None:
    _run("electra.hub")
