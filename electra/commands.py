"""The console commands of the installed package, such as `electra-pretrain`; the scripts of a checkout do the same."""

from collections.abc import Callable
from importlib import import_module

from electra.io.errors import run_script


def _command(module: str) -> Callable[[], None]:
    """Runs `main` of the module, which is imported only then: reports and sweeps start without torch."""
    return lambda: run_script(import_module(module).main)


pretrain = _command("electra.pretraining.run")
tokenizer = _command("electra.tokenizers.run")
glue = _command("electra.tasks.glue.task")
squad = _command("electra.tasks.squad.task")
tagging = _command("electra.tasks.tagging.task")
swag = _command("electra.tasks.multiple_choice.task")
blimp = _command("electra.tasks.minimal_pairs.task")
sweep = _command("electra.sweep.__main__")
report = _command("electra.report.__main__")
inspect = _command("electra.inspect")
corruption_set = _command("electra.corruption_set")
push = _command("electra.io.hub")
