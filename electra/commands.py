"""The commands: `electra VERB` of the installed package, `python -m electra VERB` anywhere.

A verb's module is imported only when the verb runs, so that `electra --help` answers at once.
"""

import os
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from typing import NamedTuple, NoReturn

from electra.io.errors import UserError, hint_of_unknown, run_script


class Verb(NamedTuple):
    """A verb of `electra`: the module whose `main` runs the verb, a line about it, and the first part of its help."""

    module: str
    about: str
    example: str
    """Arguments of a typical call."""
    options: str
    """The three most important options, one per line."""


VERBS = {
    "pretrain": Verb(
        "electra.pretraining.run",
        "pre-train a generator and a discriminator on any text",
        "--train_file 'corpus/*.txt' --model_size tiny --experiment_name mine",
        """
  --budget       time that training may take, such as 2h: sets size and steps
  --train_file   the text, or --dataset_name; without one, Python's documentation
  --model_size   sizes and hyperparameters of the networks
""",
    ),
    "tokenizer": Verb(
        "electra.tokenizers.command",
        "train or extend a tokenizer for any language",
        "--train_file 'corpus/*.txt' --vocab_size 32000 --output_dir my_tokenizer",
        """
  --train_file or --dataset_name   the text
  --output_dir                     the folder; the other commands take it as --tokenizer_path
  --no_lowercase                   keep upper case
""",
    ),
    "cache": Verb(
        "electra.data.command",
        "tokenize a corpus before pre-training, with all cores of a host",
        "--train_file 'corpus/*.txt' --tokenizer_path my_tokenizer",
        """
  --cache_dir   where; run_pretraining.py finds it there, or --token_cache names it
""",
    ),
    "glue": Verb(
        "electra.tasks.glue.task",
        "fine-tune on GLUE and similar tasks, with several seeds",
        "--pretrain_path output/quickstart --tasks demo",
        """
  --pretrain_path   the encoder: a run, a checkpoint, a model folder or a Hub id
  --tasks           names of tasks; without it, all of GLUE
  --num_seeds       runs per task
""",
    ),
    "classify": Verb(
        "electra.tasks.classify.task",
        "fine-tune on your own texts with labels: classes, several at once, or numbers",
        "--pretrain_path output/small_owt --train_file reviews.csv --save_model",
        """
  --pretrain_path    the encoder: a run, a checkpoint, a model folder or a Hub id
  --train_file       csv, tsv, jsonl or parquet with the columns text and label
  --train_fractions  .2: train on a fifth of the texts
""",
    ),
    "predict": Verb(
        "electra.finetuning.predict",
        "answer the rows of a file with a fine-tuned model that was saved",
        "output/classify_reviews_small_owt/models/reviews new.csv --output_file answers.csv",
        """
  --output_file    where the rows go, with their answers
  --text_column    the column of the text, if it is not the one of the training data
  --per_device_eval_batch_size   texts per batch
""",
    ),
    "squad": Verb(
        "electra.tasks.squad.task",
        "fine-tune on questions about paragraphs, SQuAD 1.1 or 2.0",
        "--pretrain_path output/small_owt --dataset_name squad_v2",
        """
  --pretrain_path                     the encoder: a run, a checkpoint, a model folder or a Hub id
  --train_file and --validation_file  your own questions, in the format of SQuAD
  --num_seeds                         runs
""",
    ),
    "tag": Verb(
        "electra.tasks.tagging.task",
        "fine-tune to label words, such as names (NER)",
        "--pretrain_path output/small_owt --train_file eng.train --validation_file eng.testa",
        """
  --pretrain_path                     the encoder: a run, a checkpoint, a model folder or a Hub id
  --train_file and --validation_file  one word and its label a line
  --num_seeds                         runs
""",
    ),
    "choose": Verb(
        "electra.tasks.multiple_choice.task",
        "fine-tune on multiple choice, such as SWAG",
        "--pretrain_path output/small_owt --train_file train.csv --validation_file dev.csv",
        """
  --pretrain_path                     the encoder: a run, a checkpoint, a model folder or a Hub id
  --train_file and --validation_file  your own questions; without them, SWAG
  --num_seeds                         runs
""",
    ),
    "pairs": Verb(
        "electra.tasks.minimal_pairs.task",
        "test grammar on minimal pairs, such as BLiMP, without training",
        "--pretrain_path output/small_owt --data blimp/data",
        """
  --pretrain_path   a run, a checkpoint, a discriminator or any masked language model
  --data            files of pairs; without it, BLiMP
  --score           how the networks judge a sentence
""",
    ),
    "detect": Verb(
        "electra.tasks.detect.task",
        "find words and texts of a file that look wrong",
        "--pretrain_path output/small_owt texts.txt --validation_file held_out.txt",
        """
  --pretrain_path      a run, a checkpoint or a discriminator
  --validation_file    right text, from which the threshold is taken
  --false_alarm_rate   share of its tokens above the threshold
""",
    ),
    "inspect": Verb(
        "electra.tools.inspect",
        "show what is masked and replaced in a sentence, and which tokens look replaced",
        "output/small_owt 'the chef cooked the meal'",
        """
  --generator         a generator to replace words with
  --mlm_probability   share of the tokens to replace
  --seed              of masks and samples
""",
    ),
    "report": Verb(
        "electra.report.command",
        "write a page about runs, or about evaluations of one kind",
        "output/small_owt --glue output/glue_small_owt",
        """
  --output   where the page is written
  --glue     an evaluation on GLUE; adds its scores to the page
""",
    ),
    "sweep": Verb(
        "electra.tools.sweep",
        "run a sweep file of wandb on this machine, without an account",
        "configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml",
        """
  --parallel   points at the same time
  --max_runs   the most points; a random search needs it
  --glue       a file for run_glue.py, with which each discriminator is fine-tuned
""",
    ),
    "testset": Verb(
        "electra.pretraining.testset",
        "make a fixed corrupted test set, on which different runs can be compared",
        "--pretrain_path output/small_owt --validation_file held_out.txt --output_file fixed.safetensors",
        """
  --pretrain_path     the run whose generator replaces tokens
  --validation_file   text that no compared run trains on
  --output_file       for --eval_corruption of run_pretraining.py
""",
    ),
    "schema": Verb(
        "electra.schema",
        "print a JSON schema with which editors complete and check --config files",
        "> electra.schema.json",
        """
  VERB   the options of one command; without it, those of all commands, and sweep files
""",
    ),
    "push": Verb(
        "electra.tools.push",
        "upload the networks of a run, or fine-tuned models, to the Hugging Face Hub",
        "output/small_owt --hub_model_id me/small_owt --private",
        """
  --hub_model_id   name or owner/name of the repositories
  --private        create private repositories
  --hub_token      without it, the token of `hf auth login`
""",
    ),
}
"""The commands by the word that follows `electra`, in the order of its help."""
WITHOUT_TORCH = ("report", "push")
"""Verbs that import no torch: no line asks the user to wait for its import."""

SPINS = "1000"
"""Turns that a thread of torch waits for the others before it gives up its core. libgomp's own 300,000 take
milliseconds, in which the thread that all wait for has no core if other work runs. No result depends on the number."""


def main() -> NoReturn:
    """Run the verb that is the first word of `sys.argv`: the command `electra`."""
    name = "".join(sys.argv[1:2])
    sys.argv[:2] = [f"electra {name}"]  # the name of the program in errors and help
    run(name)


def run(name: str) -> NoReturn:
    """Run a verb with the options in `sys.argv`."""
    # When a process of a run is lost, torch would print its C++ calls; the error that follows is one line.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # libgomp reads the number when torch is loaded
    run_script(lambda: start(name))


def start(name: str) -> None:
    if name in ("", "-h", "--help"):
        print(overview(), flush=True)  # noqa: T201 - before any library is imported
        return
    if name not in VERBS:
        hint = hint_of_unknown(name, VERBS, f"the verbs are {' '.join(VERBS)}")
        raise UserError(f"electra has no verb {name!r}; {hint}")
    verb = VERBS[name]
    words = sys.argv[1:]
    options = words[: words.index("--")] if "--" in words else words
    if {"-h", "--help"} & set(options):
        print(f"example: python -m electra {name} {verb.example}\n{verb.options}", flush=True)  # noqa: T201
    elif name not in WITHOUT_TORCH and os.environ.get("RANK", "0") == "0":
        with suppress(OSError):  # stderr may be on a full disk
            print(f"electra {name}: loading torch and transformers", file=sys.stderr, flush=True)  # noqa: T201
    with redirect_stdout(sys.stderr):  # transformers prints what it finds; the standard output may be rows
        module = import_module(verb.module)
    module.main()


def overview() -> str:
    """Return the help of `electra` itself."""
    verbs = [f"  {name:<10} {verb.about}" for name, verb in VERBS.items()]
    examples = [f"  electra {name} {VERBS[name].example}" for name in ("pretrain", "glue")]
    lines = ["usage: electra VERB [options]", "", *verbs, "", "examples:", *examples, ""]
    return "\n".join([*lines, "`electra VERB --help` lists the options; `python -m electra` is the same."])
