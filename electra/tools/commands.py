"""The commands: `electra VERB` of the installed package, `python -m electra VERB` anywhere.

A verb's module is imported only when the verb runs. The help is ready in files of electra/help/, which
`python -m docs.help_files` writes, so that `electra --help` and `electra VERB --help` answer at once.
"""

import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from importlib.resources import files
from itertools import zip_longest
from typing import Any, NamedTuple, NoReturn

from electra.base.errors import hint_of_unknown, run_script
from electra.core.errors import UserError
from electra.finetuning.registry import TASKS


class Verb(NamedTuple):
    """A verb of `electra`, as the command and its help have to know it.

    Args:
        module: module whose `main` runs the verb.
        about: what the verb does, in a line.
        example: arguments of a typical call.
        basic: names of the options that `--help` shows, the most important first; "" for all. `--help all` shows every
            option.
        preset: option -> value that it has if no file or flag sets it. `main` takes it as `preset`, unless it is
            empty.
    """

    module: str
    about: str
    example: str
    basic: str = ""
    preset: Mapping[str, Any] = {}


VERBS = {
    "pretrain": Verb(
        "electra.pretraining.run",
        "pre-train a generator and a discriminator on any text",
        "--train_file 'corpus/*.txt' --budget 2h --experiment_name mine",
        "budget train_file model_size dataset_name experiment_name tokenizer_path vocab_size lowercase "
        "validation_file max_length max_steps per_device_train_batch_size learning_rate seed objective "
        "generator_size mlm_probability init_discriminator bf16 threads report_to auto_resume plan",
    ),
    "tokenizer": Verb(
        "electra.tokenizers.command",
        "train or extend a tokenizer for any language",
        "--train_file 'corpus/*.txt' --vocab_size 32000 --output_dir my_tokenizer",
        "train_file dataset_name output_dir vocab_size lowercase strip_accents tokenizer_algorithm "
        "max_documents extend new_tokens",
    ),
    "cache": Verb(
        "electra.data.command",
        "tokenize a corpus before pre-training, with all cores of a host",
        "--train_file 'corpus/*.txt' --tokenizer_path my_tokenizer",
        "train_file dataset_name tokenizer_path cache_dir vocab_size lowercase",
    ),
    **{verb: Verb(row.module, row.about, row.example, row.basic, row.preset) for verb, row in TASKS.items()},
    "predict": Verb(
        "electra.finetuning.predict",
        "answer the rows of a file with a fine-tuned model that was saved",
        "output/classify_reviews_small_owt/models/reviews new.csv --output_file answers.csv",
    ),
    "detect": Verb(
        "electra.tasks.detect.task",
        "find words and texts of a file that look wrong",
        "--pretrain_path output/small_owt texts.txt",
    ),
    "inspect": Verb(
        "electra.tools.inspect",
        "show what is masked and replaced in a sentence, and which tokens look replaced",
        "output/small_owt 'the chef cooked the meal'",
    ),
    "report": Verb(
        "electra.report.command",
        "write a page about runs, or about evaluations of one kind",
        "output/small_owt --glue output/glue_small_owt",
    ),
    "sweep": Verb(
        "electra.tools.sweep",
        "run a sweep file of wandb on this machine, without an account",
        "configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml",
    ),
    "testset": Verb(
        "electra.pretraining.testset",
        "make a fixed corrupted test set, on which different runs can be compared",
        "--pretrain_path output/small_owt --validation_file held_out.txt --output_file fixed.safetensors",
    ),
    "push": Verb(
        "electra.tools.push",
        "upload the networks of a run, or fine-tuned models, to the Hugging Face Hub",
        "output/small_owt --hub_model_id me/small_owt --private",
    ),
}
"""Word behind `electra` -> its verb, in the order of the help; kinds of tasks have theirs from `TASKS`."""
WITHOUT_TORCH = ("report", "push")
"""Verbs that import no torch: no line asks the user to wait for its import."""
SPINS = "1000"
"""Turns for which a thread of torch waits for the others before it gives up its core. libgomp's own 300,000 turns take
milliseconds; on a busy machine, the thread that all others wait for has no core meanwhile. No result depends on it."""


def main() -> NoReturn:
    """Run the verb that is the first word of `sys.argv`: the command `electra`."""
    name = "".join(sys.argv[1:2])
    sys.argv[:2] = [f"electra {name}"]  # the name of the program in errors and help
    run(name)


def run(name: str) -> NoReturn:
    """Run a verb with the options in `sys.argv`, and exit with its code."""
    # When a process of a run is lost, torch would print its C++ calls; the error that follows is one line.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # libgomp reads the number when torch is loaded
    run_script(lambda: start(name))


def start(name: str) -> None:
    """Print the help that is asked for, or import the module of a verb and run its `main`.

    Raises:
        UserError: there is no such verb.
    """
    if name in ("", "-h", "--help"):
        print(overview(), flush=True)  # noqa: T201 - before any library is imported
        return
    if name not in VERBS:
        hint = hint_of_unknown(name, VERBS, f"the verbs are {' '.join(VERBS)}")
        raise UserError(f"electra has no verb {name!r}; {hint}")
    verb = VERBS[name]
    words = sys.argv[1:]
    options = words[: words.index("--")] if "--" in words else words
    if asks_for_help(options):
        sys.stdout.write(files("electra").joinpath("help", f"{name}.txt").read_text(encoding="utf-8"))
        return
    if name not in WITHOUT_TORCH and os.environ.get("RANK", "0") == "0":
        with suppress(OSError):  # stderr may be on a full disk
            print(f"electra {name}: loading torch and transformers", file=sys.stderr, flush=True)  # noqa: T201
    with redirect_stdout(io.StringIO()):  # transformers prints what it finds, such as WANDB_MODE, used or not
        module = import_module(verb.module)
    if verb.preset:
        module.main(preset=verb.preset)
    else:
        module.main()


def asks_for_help(words: Sequence[str]) -> bool:
    """Return True if the words ask for the help in the verb's file; `--help all` is answered by the verb itself."""
    return any(word in ("-h", "--help") and following != "all" for word, following in zip_longest(words, words[1:]))


def overview() -> str:
    """Return the help of `electra` without a verb."""
    verbs = [f"  {name:<10} {verb.about}" for name, verb in VERBS.items()]
    examples = [f"  electra {name} {VERBS[name].example}" for name in ("pretrain", "glue")]
    lines = ["usage: electra VERB [options]", "", *verbs, "", "examples:", *examples, ""]
    lines.append("`electra VERB --help` lists the basic options, `electra VERB --help all` every one.")
    return "\n".join([*lines, "`python -m electra` is the same command."])
