"""Write all that is made of the code: pages of docs/, the help of the verbs, configs/electra.schema.json.

python -m docs.reference

Options come from their declarations, files of configs/ from their first lines, names of Python from their docstrings,
sizes and learning rates from the recipes.
"""

import argparse
import dataclasses
import inspect
import re
from argparse import SUPPRESS
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from textwrap import fill
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedConfig, PreTrainedTokenizerFast

import electra
from docs import help_files
from docs.schema import VERBS_WITH_CONFIG, schema_of_files, to_json
from electra.base.command_line import CommandLine
from electra.base.files import read_yaml
from electra.base.options import NOT_EMPTY, Need, Options, default_of
from electra.core.objectives import BASE_RATE, OBJECTIVES, Objective
from electra.core.options import options_with, rules_of
from electra.core.recipes import RECIPES
from electra.finetuning.registry import BY_KIND, TASKS, TRAINED, reporting_of
from electra.pretraining.configuration import GROUPS, RESUMING
from electra.pretraining.options import INHERITED, OF_PHASE, PRETRAINING_NEEDS, PROGRAM_NEEDS
from electra.pretraining.plan import parameter_counts
from electra.report.metrics import PRETRAINING_METRICS
from electra.tools.commands import VERBS

FOLDER = Path(__file__).parent
"""Folder of the pages."""
CONFIGS = FOLDER.parent / "configs"
"""Folder of the files of options."""
WIDTH = 119
"""Characters of a line of text, at most."""


def pages() -> dict[Path, str]:
    """Return path -> text of each page, and of the schema."""
    return {
        FOLDER / "options.md": options_page(),
        FOLDER / "configs.md": configs_page(),
        FOLDER / "python.md": python_page(),
        FOLDER / "choose.md": with_made("choose.md", RECIPES_MARK, recipes_table()),
        FOLDER / "use.md": with_made("use.md", ANSWERS_MARK, answers_table()),
        FOLDER / "metrics.md": with_made("metrics.md", METRICS_MARK, metrics_tables()),
        CONFIGS / "electra.schema.json": to_json(schema_of_files()),
    }


# ---- options

OPTIONS = """# Options

What each option of a command does, its default and its range. The commands with few options have them in `--help`.

- `electra VERB --help` prints the basic options, `--help all` every one. Here, too, the basic ones come first.
- The command line wins over the file of `--config FILE`, a file over the recipe of `--model_size`, a recipe over the
  defaults.
- A default "by `--model_size`" is that of the recipe ([batch and rate](choose.md#which-learning-rate)). Where the
  default is empty, nothing is set, and the text says what happens then.
- A switch is on by its name alone (`--save_model`), or with `true` or `false`.
- An unknown option is an error that names the one that was meant. [Flags of other code bases](reference_flags.md) have
  names here; files of options are [listed](configs.md), too.

This page is made of the declarations of the options by `python -m docs.reference`.
"""
OF_PRETRAINING = """All options of
[transformers.TrainingArguments](https://huggingface.co/docs/transformers/main_classes/trainer) are accepted, too:
`--optim`, `--lr_scheduler_type`, `--fsdp`, `--push_to_hub`, `--hub_model_id`, `--use_cpu` and others. "Resumed" says
what another value means for a run that goes on:

- *kept*: it is refused. So are other values of KEPT.
- *recorded*: it holds from there on, and the run's record says so. So do other values of RECORDED.
- *compared*: it is taken if documents, tokenizer, networks and segments of a step stay the same.
- The others change nothing that is learned or measured.
"""
WITHOUT_EFFECT = """**Options without effect.** A run warns of an option that does nothing in it, with the reason:
"""


class Row(NamedTuple):
    """An option as a row of a table.

    Args:
        default: default in words; "" if nothing is set.
        resumed: rule for another value in a resumed run; "" if any value is taken, or if no run can be resumed.
        meaning: help, choices and range, as the text of a cell.
    """

    name: str
    default: str
    resumed: str
    meaning: str


def options_page() -> str:
    """Return the page of all options, by verb, the basic ones first.

    An option that several verbs have with the same row is there once: in the section of all fine-tuning, or at the
    first verb, to which others refer.
    """
    groups = {verb: list(groups_of(verb)) for verb in VERBS_WITH_CONFIG}
    rows_of = {verb: {row for _, rows in groups[verb] for row in rows} for verb in TRAINED}
    shared = set.intersection(*rows_of.values())
    lines = [OPTIONS]
    sections: dict[Row, str] = {}
    for verb in VERBS_WITH_CONFIG:
        if verb == TRAINED[0]:
            common = [row for _, rows in groups[verb] for row in rows if row in shared]
            names = ", ".join(f"`electra {name}`" for name in TRAINED)
            lines += ["## All fine-tuning", "", fill(f"Options of {names}.", WIDTH), ""]
            lines += tables([("Other options", common)], VERBS[verb].basic.split())
            sections |= dict.fromkeys(shared, ALL_FINE_TUNING)
        lines += [f"## electra {verb}", "", f"{VERBS[verb].about[0].upper()}{VERBS[verb].about[1:]}.", ""]
        lines += ["```bash", f"electra {verb} {VERBS[verb].example}", "```", ""]
        if VERBS[verb].preset:
            origin = BY_KIND[TASKS[verb].kind]
            values = ", ".join(f"`--{name} {in_words(value)}`" for name, value in VERBS[verb].preset.items())
            text = f"The options are those of [electra {origin}](#electra-{origin}), with {values} by default."
            lines += [fill(text, WIDTH, break_on_hyphens=False), ""]
            continue
        lines += [about_pretraining()] if verb == "pretrain" else elsewhere(groups[verb], sections)
        here = [(title, [row for row in rows if row not in sections]) for title, rows in groups[verb]]
        lines += tables(here, VERBS[verb].basic.split())
        sections |= {row: f"electra {verb}" for _, rows in here for row in rows}
        if verb == "pretrain":
            needs = [*PRETRAINING_NEEDS, PROGRAM_NEEDS[0]]
            lines += [WITHOUT_EFFECT, *(f"- {line_of_need(need)}" for need in needs), ""]
            lines += [TAKEN_OVER, *lines_of_taken_over(), ""]
    return "\n".join([*lines, OBJECTIVES_TITLE, *map(row_of_objective, OBJECTIVES.values()), ""])


def about_pretraining() -> str:
    """Return the text above the options of pre-training, with the rules of those that only transformers declares."""
    text = OF_PRETRAINING
    for rule in ("kept", "recorded"):
        names = [name for name, f in OF_RUN.items() if RESUMING[name] == rule and "rules" not in f.metadata]
        text = text.replace(rule.upper(), ", ".join(f"`--{name}`" for name in sorted(names)))
    return text


TAKEN_OVER = """**Options that a later run takes over.** A run that starts from trained networks has these options of
their run, unless they are given:
"""


def lines_of_taken_over() -> list[str]:
    """Return the options that a run has from the run of its checkpoint or networks, as items of a list."""
    same = {*options_with("of_same_objective", *GROUPS)}
    items = {
        "With --init_checkpoint": OF_PHASE - same,
        "With --init_discriminator or --init_generator": INHERITED - same,
        "With these, and the same --objective": same & INHERITED,
    }
    lines = [
        f"- {start}: {', '.join(f'--{name}' for name in OF_RUN if name in names)}." for start, names in items.items()
    ]
    return [fill(as_cell(line), WIDTH, break_on_hyphens=False, subsequent_indent="  ") for line in lines]


ALL_FINE_TUNING = "all fine-tuning"
"""Title of the options that all verbs of fine-tuning have."""


def tables(groups: Iterable[tuple[str, list[Row]]], basic: list[str]) -> list[str]:
    """Return groups of options as the lines of tables: one of the basic options, and one of the others of each group.

    Args:
        groups: title and rows of each group.
        basic: names of basic options, in the order of their table; names that no group has are skipped.
    """
    groups = list(groups)
    rows = {row.name: row for _, group in groups for row in group}
    first = [rows[name] for name in basic if name in rows]
    lines = ["**Basic options**", "", *table(first)] if first else []
    for title, group in groups:
        if others := [row for row in group if row not in first]:
            lines += [f"**{title}**", "", *table(others)]
    return lines


def elsewhere(groups: Iterable[tuple[str, list[Row]]], sections: Mapping[Row, str]) -> list[str]:
    """Return a paragraph for each earlier section that has options of a verb, with their names.

    Args:
        groups: title and rows of each group of the verb's options.
        sections: row -> title of the section that has it.
    """
    names: dict[str, list[str]] = {}
    for _, rows in groups:
        for row in rows:
            if row in sections:
                names.setdefault(sections[row], []).append(f"`--{row.name}`")
    lines = []
    for section_title, options in names.items():
        link = f"[{section_title}](#{section_title.replace(' ', '-')})"
        text = (
            f"It has the options of {link}."
            if section_title == ALL_FINE_TUNING
            else f"As in {link}: {', '.join(options)}."
        )
        lines += [fill(text, WIDTH, break_on_hyphens=False), ""]
    return lines


def line_of_need(need: Need) -> str:
    """Return the options of a need, and why they have no effect, as an item of a list.

    Where the reason names the user's value of a choice, it names all values with this reason.
    """
    reason = re.sub("^it is for ", "only for ", need.reason)
    if asked := re.search(r"--(\w+) {\w+}", reason):
        values = sorted(OF_RUN[asked[1]].metadata.get("choices", ()))
        met = [v for v in values if need.holds(SimpleNamespace(**{**DEFAULTS, asked[1]: v}))]
        unmet = [value for value in values if value not in met]
        words = f"--{asked[1]} {one_of(unmet)}" if len(unmet) <= len(met) else f"any --{asked[1]} but {one_of(met)}"
        reason = reason.replace(asked[0], words.strip())
    return as_cell(f"{', '.join(f'--{name}' for name in need.names)}: {reason}.")


def one_of(values: list[str]) -> str:
    """Return values in words: `a, b or c`."""
    *first, last = values or [""]
    return f"{', '.join(first)} or {last}" if first else last


OF_RUN = {name: option for name, (option, _) in CommandLine(VERBS_WITH_CONFIG["pretrain"], "").options.items()}
"""Name of an option of `electra pretrain` -> its declaration."""
DEFAULTS = {name: default_of(option) for name, option in OF_RUN.items()}
"""Name of an option of `electra pretrain` -> its default."""


OBJECTIVES_TITLE = """## Objectives

What `--objective` trains, and what the loss of the main network is. D is the discriminator's answer, the sigmoid of
its output. Compare a binary cross-entropy over tokens with the entropy of the share of replaced ones, which the best
guess without looking at the text reaches. [fidelity.md](fidelity.md#ablations---objective) has the differences from
the papers.

| objective | trained | loss of the main network | D |
|---|---|---|---|"""


def row_of_objective(objective: Objective) -> str:
    """Return an objective as a line of the table of objectives."""
    answer = "a probability" if objective.answers_probability else "no probability"
    loss = objective.meaning.removesuffix(f" {BASE_RATE}")
    cells = (f"`{objective.name}`", objective.summary, loss, answer if objective.finds_replaced else "")
    return f"| {' | '.join(map(as_cell, cells))} |"


def groups_of(verb: str) -> Iterator[tuple[str, list[Row]]]:
    """Yield title and rows of each group of a verb's options, without those that only transformers declares."""
    command = CommandLine(VERBS_WITH_CONFIG[verb], "")
    for group in command.dataclass_types:
        ours = [base for base in group.__mro__ if not base.__module__.startswith("transformers.")]
        names = set().union(*map(inspect.get_annotations, ours))
        options = [f for name, (f, owner) in command.options.items() if owner is group and name in names]
        options = [f for f in options if f.metadata.get("help") != SUPPRESS]
        title = re.split(r"\.(?: |$)", str(inspect.getdoc(group)).splitlines()[0])[0]
        yield title, [row_of(f, verb, of_run=group in GROUPS) for f in options]


def row_of(option: dataclasses.Field[Any], verb: str, *, of_run: bool) -> Row:
    """Return an option of a verb as a row.

    Args:
        of_run: whether the option belongs to a run of pre-training, which may be resumed.
    """
    valid = rules_of(option).valid
    text = option.metadata.get("help", "").replace("%%", "%")
    choices = sorted(option.metadata.get("choices", ()))  # in one order with every version of transformers
    if not all(choice in text for choice in choices):
        text += f" One of: {', '.join(choices)}."
    if valid and valid is not NOT_EMPTY:
        text += f" Range: {valid.expected}."
    default = default_of(option)
    by_recipe = verb == "pretrain" and any(option.name in recipe for recipe in RECIPES.values())
    if by_recipe and option.name in RECIPES["small"]:
        words = "by `--model_size`"
    elif default is None or default == [] or default == "":
        words = ""
    elif isinstance(default, bool):
        words = "on" if default else "off"
    else:
        words = f"`{in_words(default)}`"
    if by_recipe and option.name not in RECIPES["small"]:
        words = f"{words}, or by `--model_size`".removeprefix(", or ")
    resumed = RESUMING[option.name].replace("free", "") if of_run else ""
    return Row(option.name, words, resumed, as_cell(text))


def in_words(value: Any) -> str:
    """Return a value as the words of a command line."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(getattr(value, "value", value))


def as_cell(text: str) -> str:
    """Return a text as one line for a cell: options and patterns of files are code, `|` and `<` are escaped."""
    text = re.sub(r"(?<![`\w-])(--\w+|[\w./]*\*(?:[\w./*]*[\w/*])?)", r"`\1`", " ".join(text.split()))
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(rows: Sequence[Row]) -> list[str]:
    """Return rows as the lines of a table, and an empty line.

    Name and meaning come first, because a small screen shows two columns.
    """
    if not any(row.resumed for row in rows):
        lines = [f"| `--{row.name}` | {row.meaning} | {row.default} |" for row in rows]
        return ["| option | meaning | default |", "|---|---|---|", *lines, ""]
    lines = [f"| `--{row.name}` | {row.meaning} | {row.default} | {row.resumed} |" for row in rows]
    return ["| option | meaning | default | resumed |", "|---|---|---|---|", *lines, ""]


# ---- files of options

CONFIGURATIONS = """# Configuration files

Repeat a published experiment: `electra VERB --config FILE` reads one of the files of [configs/](../configs), and
options on the command line win. Each file names its source, the published result and what cannot be reproduced.
`configs/electra.schema.json` lets editors complete and check such files. This page is made of their first lines by
`python -m docs.reference`.
"""
RATES = """Files of configs/pretraining/ with a peak learning rate of their own; the others have that of [their
recipe](choose.md#which-learning-rate). A batch is the sequences of an optimizer step of one process.
"""
USES = {
    "pretraining": "electra pretrain --config",
    "glue": "electra glue --config",
    "tagging": "electra tag --config",
    "squad": "electra squad --config",
    "swag": "electra choose --config",
    "sweeps": "electra sweep",
}
"""Folder of configs/ -> the command that reads its files."""


def configs_page() -> str:
    """Return the page of the files of options, by folder."""
    lines = [CONFIGURATIONS]
    for folder, use in USES.items():
        lines += [f"## `{use} configs/{folder}/...`", "", "| file | what it is | to reach |", "|---|---|---|"]
        for path in sorted((CONFIGS / folder).glob("*.yaml")):
            about, goal = first_lines(path.read_text(encoding="utf-8"))
            link = f"[{path.name}](../configs/{folder}/{path.name})"
            lines.append(f"| {link} | {as_cell(about)} | {as_cell(goal)} |")
        lines.append("")
    lines += ["## Learning rate, batch and steps", "", RATES, *rate_lines(), ""]
    return "\n".join(lines)


def first_lines(text: str) -> tuple[str, str]:
    """Return the first sentence of a file's comment, with any "This file: ...", and what follows "To reach", or ""."""
    comment = re.match(r"# yaml-language-server.*\n((?:#.*\n)+)", text)
    words = " ".join(line.removeprefix("#").strip() for line in comment[1].splitlines()) if comment else ""
    words = re.sub(r" \(docs/[\w/.]+\)", "", words.replace("et al.", "et al"))
    sentences = re.split(r"(?<=[.?]) (?=[A-Z\[`-])", words)
    about = [sentences[0], *(sentence for sentence in sentences[1:] if sentence.startswith("This file: "))]
    goals = [match[1] for sentence in sentences if (match := re.match(r"To reach:? (.*)", sentence))]
    return " ".join(about).replace("et al", "et al."), goals[0] if goals else ""


def rate_lines() -> list[str]:
    """Return the table of the files of configs/pretraining that have a learning rate of their own."""
    lines = ["| file | learning rate | warm-up | batch x length | steps |", "|---|---:|---:|---:|---:|"]
    for path in sorted((CONFIGS / "pretraining").glob("*.yaml")):
        values = read_yaml(path.read_text(encoding="utf-8"))
        if "learning_rate" in values:
            cells = training_cells({**RECIPES[values.get("model_size", "small")], **values})
            lines.append(f"| {' | '.join([path.stem, *cells])} |")
    return lines


# ---- sizes and learning rates

RECIPES_MARK = "<!-- recipes, made by python -m docs.reference -->\n"
"""Line before and after the table of recipes in a page."""
VOCABULARY = 30_522
"""Tokens of the vocabulary of a recipe that names none, as in the paper."""


def with_made(page: str, mark: str, made: str) -> str:
    """Return the text of a page of docs/ with `made` between its two marks."""
    before, _, after = (FOLDER / page).read_text(encoding="utf-8").split(mark)
    return f"{before}{mark}\n{made}\n{mark}{after}"


METRICS_MARK = "<!-- metrics, made by python -m docs.reference -->"
"""Line before and after the tables of metrics."""


def metrics_tables() -> str:
    """Return the definitions of the metrics of pre-training and of each verb, as tables.

    Metrics that the page defines by hand, as `eval_NAME`, are left out; those without a definition are named below.
    """
    by_hand = (FOLDER / "metrics.md").read_text(encoding="utf-8").split(METRICS_MARK)[0]
    lines: list[str] = []
    verbs = [verb for verb in TRAINED if not TASKS[verb].preset]
    reports = {verb: reporting_of(TASKS[verb].kind).metrics for verb in verbs}
    for verb, metrics in {"pretrain": PRETRAINING_METRICS, **reports}.items():
        here = [m for m in metrics.values() if f"`eval_{m.name}`" not in by_hand and not m.name.startswith("test_")]
        lines += [f"### electra {verb}", ""]
        if rows := [f"| `{m.name}` | {as_cell(m.definition)} |" for m in here if m.definition]:
            lines += ["| name | what it is |", "|---|---|", *rows, ""]
        if others := [f"`{m.name}`" for m in here if not m.definition]:
            lines += [fill(f"{'Also' if rows else 'It has'} {', '.join(others)}, as defined above.", WIDTH), ""]
    return "\n".join(lines)


ANSWERS_MARK = "<!-- answers, made by python -m docs.reference -->\n"
"""Line before and after the table of the answers of saved models."""


def answers_table() -> str:
    """Return what a saved model reads and answers, as a table; verbs with the same cells share a line."""
    verbs: dict[tuple[str, ...], list[str]] = {}
    for verb, row in TASKS.items():
        if row.answers is not None and not row.preset:
            verbs.setdefault(row.answers, []).append(f"`{verb}`")
    lines = ["| saved by | columns read | `prediction` | `probability` |", "|---|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| {' | '.join([', '.join(names), *cells])} |" for cells, names in verbs.items()), ""]
    )


def recipes_table() -> str:
    """Return the recipes as a table: parameters of both networks, learning rate, batch and steps."""
    titles = ("`--model_size`", "discriminator", "generator", "learning rate", "warm-up", "batch x length", "steps")
    lines = [f"| {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 1)}"]
    for name, recipe in sorted(RECIPES.items(), key=lambda item: parameters_of(item[0])["discriminator"]):
        counts = parameters_of(name)
        sizes = [f"{counts[network] / 1e6:.3g} M" for network in ("discriminator", "generator")]
        lines.append(f"| {' | '.join([f'`{name}`', *sizes, *training_cells(recipe)])} |")
    return "\n".join(lines) + "\n"


def training_cells(values: Mapping[str, Any]) -> list[str]:
    """Return the cells of learning rate, warm-up, batch x length and steps of a run on one device.

    Args:
        values: options of the run, by name.
    """
    rate = f"{float(values['learning_rate']):.0e}".replace("e-0", "e-")
    batch = values["per_device_train_batch_size"] * values.get("gradient_accumulation_steps", 1)
    warmup, steps = (f"{values[name]:,}" for name in ("warmup_steps", "max_steps"))
    return [rate, warmup, f"{batch:,} x {values['max_length']:,}", steps]


@cache
def parameters_of(recipe: str) -> dict[str, int]:
    """Return the parameters of a recipe's networks, as `parameter_counts` does; their weights are not made."""
    special = {f"{role.lower()}_token": f"[{role}]" for role in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    size = int(RECIPES[recipe].get("vocab_size", VOCABULARY))
    words = [*special.values(), *(f"w{number}" for number in range(size - len(special)))]
    vocabulary = {word: number for number, word in enumerate(words)}
    words_alone = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words_alone, **special)
    with torch.device("meta"):
        return parameter_counts(electra.ElectraForJointPretraining.from_recipe(recipe, tokenizer))


# ---- Python

PYTHON = """# Python

Pre-train, fine-tune, predict and find odd words from a program. `from electra import NAME` imports a name when it is
first used. [Options](options.md) are those of the commands: `--num_seeds 3` is `num_seeds=3`, also where a message
names one. A path may be a string or a `Path`. Wrong values, data, files and models raise `UserError`, a `ValueError`
of one line; an argument that a class or function does not have is a `TypeError`, as everywhere in Python.

- A model in memory needs its tokenizer, as `processing_class`, unless it was loaded from a folder that has one.
- After each call the settings of the process are as before (threads, precision of products, malloc, signals), and
  after `fine_tune`, `predict` and `replaced_token_probabilities` the random states, too.
- What a command prints is printed here, too, unless the program sets up `logging` for INFO itself.
  `logging.getLogger("electra").setLevel("WARNING")` leaves only warnings.
- `AutoModel` opens the joint model of a run's `checkpoint-N` after `from electra import` of any name of a model.

[examples/](../examples) has programs and [a notebook](../examples/electra.ipynb). This page is made of the docstrings
by `python -m docs.reference`.
"""
PRE_TRAIN = """```python
from electra import ElectraForJointPretraining, ElectraTrainer, ElectraTrainingArguments
from electra import finish_run, tokenize_corpus, train_tokenizer

tokenizer = train_tokenizer("corpus/*.txt", vocab_size=4096)
corpus = tokenize_corpus("corpus/*.txt", tokenizer)
model = ElectraForJointPretraining.from_recipe("tiny", tokenizer)
args = ElectraTrainingArguments.from_recipe("tiny", "output/mine", max_steps=2000)
trainer = ElectraTrainer(model=model, args=args, train_dataset=corpus, processing_class=tokenizer)
trainer.train()  # the same call continues after an interruption
print(finish_run(trainer)["verdict"])
```
"""
FINE_TUNE = """```python
from electra import fine_tune, predict

tuned = fine_tune("output/mine", "reviews.csv", num_seeds=3)
print(tuned.scores["accuracy"])  # median over the seeds
print(predict(tuned, ["What a film!"]))  # [{"prediction": "good", "probability": 0.98}]
```
"""
DETECT = """```python
from electra import replaced_token_probabilities

for token in replaced_token_probabilities("the chef ate the meal", "output/mine")[0]:
    print(token.piece, token.probability)
```
"""
EXTEND = """Names for programs that add an objective, a task or an optimizer of their own; their modules have the whole
description, and [CONTRIBUTING.md](../CONTRIBUTING.md) the steps.
"""
PURPOSES = {
    "Pre-train": (
        PRE_TRAIN,
        (
            "train_tokenizer",
            "load_tokenizer",
            "tokenize_corpus",
            "TokenCache",
            "ElectraForJointPretraining",
            "RECIPES",
            "ElectraTrainingArguments",
            "SegmentArguments",
            "ElectraTrainer",
            "finish_run",
        ),
    ),
    "Fine-tune and predict": (FINE_TUNE, ("fine_tune", "FineTuned", "predict")),
    "Find words that look wrong": (DETECT, ("replaced_token_probabilities", "TokenProbability")),
}
"""What a program does -> an example, and the names that it needs."""


def python_page() -> str:
    """Return the page of the public names: by what a program does, then those that extend the toolkit."""
    lines = [PYTHON]
    for task, (example, names) in PURPOSES.items():
        lines += [f"## {task}", "", example, *(section(name, getattr(electra, name), example) for name in names)]
    described = {name for _, names in PURPOSES.values() for name in names}
    lines += ["## Extend", "", EXTEND]
    for name in electra.__all__:
        if name not in described:
            value = getattr(electra, name)
            about = str(inspect.getdoc(value)).split("\n\n")[0]
            source = value.__module__.replace(".", "/")
            lines += [f"### {name}", "", "```python", signature(name, value), "```", ""]
            lines += [about, "", f"[{source}.py](../{source}.py)", ""]
    return "\n".join(lines)


SECTION = re.compile(r"^(Args|Returns|Attributes|Yields):$")
"""Title of a section of a docstring."""


def section(name: str, value: Any, example: str) -> str:
    """Return the section of a public name: its signature, then its docstring.

    Args:
        example: code above the section; examples of the docstring that it contains are left out.
    """
    lines = [f"### {name}", ""]
    if isinstance(value, dict):
        names = ", ".join(f"`{key}`" for key in value)
        return "\n".join([*lines, fill(f"{RECIPES_ARE} The names are {names}.", WIDTH, break_on_hyphens=False), ""])
    lines += ["```python", signature(name, value), "```", "", *as_markdown(inspect.getdoc(value) or ""), ""]
    if name == "SegmentArguments":
        lines += ["[Options](options.md#electra-pretrain) has them, as `--max_length` and others.", ""]
    if inspect.isclass(value):
        for method_name in PUBLIC_METHODS.get(name, ()):
            method = inspect.getattr_static(value, method_name)
            function = getattr(method, "__func__", method)
            lines += ["```python", signature(f"{name}.{method_name}", function), "```", ""]
            lines += [*as_markdown(inspect.getdoc(function) or ""), ""]

    def unless_shown(block: re.Match[str]) -> str:
        is_shown = all(line.partition("  #")[0].rstrip() in example for line in block[1].splitlines())
        return "" if is_shown else block[0]

    text = re.sub(r"\bdocs/(\w+\.md)", r"[\1](\1)", "\n".join(lines))
    return re.sub(r"(?<=\n\n)```\n(.*?)```\n\n", unless_shown, text, flags=re.DOTALL)


RECIPES_ARE = (
    "The sizes of networks and their training, by name: a dictionary of options for each recipe "
    "([table](choose.md#which-learning-rate)). `from_recipe` uses those of the networks."
)
"""Meaning of `RECIPES`, which is a value and has no docstring."""


PUBLIC_METHODS = {"ElectraForJointPretraining": ("from_recipe",), "ElectraTrainer": ("train",)}
"""Class -> its methods that have a paragraph of their own."""


def signature(name: str, value: Any) -> str:
    """Return the signature of a function or class without types; of a group of options, `**options` for all."""
    parameters = [p for p in inspect.signature(value).parameters.values() if p.name not in ("self", "cls")]
    if inspect.isclass(value) and issubclass(value, Options | PreTrainedConfig):  # options by name
        first = [parameters[0].name] if parameters[0].default is inspect.Parameter.empty else []
        return f"{name}({', '.join([*first, '**options'])})"
    words = []
    is_keyword_only = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not is_keyword_only:
            words.append("*")
            is_keyword_only = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={getattr(p.default, '__name__', repr(p.default))}"
        if default == "=<factory>":  # of a dataclass: an empty list
            default = "=[]"
        words.append(f"{prefix}{p.name}{default}")
    return f"{name}({', '.join(words)})"


def as_markdown(docstring: str) -> list[str]:
    """Return a docstring as lines of Markdown: sections become lists, other indented lines become code.

    Errors are left out: what raises them is the same for all names, and stands at the top of the page.
    """
    docstring = docstring.partition("\nRaises:\n")[0].rstrip()
    lines: list[str] = []
    in_section = in_list = in_code = False
    for line in docstring.splitlines():
        indent = len(line) - len(line.lstrip())
        text = line.strip()
        if in_code and text and indent == 0:
            while not lines[-1]:
                lines.pop()
            lines += ["```", ""]
            in_code = False
        if SECTION.match(line):
            lines += [*([""] if lines and lines[-1] else []), f"**{text[:-1]}**", ""]
            in_section = True
            in_list = text != "Returns:"  # a paragraph, which may have colons
        elif in_section and text and not in_list:
            lines.append(text)
        elif in_section and text and indent == 4 and ":" in text:
            name, _, meaning = text.partition(":")
            lines.append(f"- `{name}`:{meaning}")
        elif in_section and text and indent:
            lines.append(f"  {text}")
        elif text and indent >= 4 and not in_section and not in_code:
            lines += ["```", line[4:]]
            in_code = True
        elif in_code:
            lines.append(line[4:])
        else:
            in_section = in_section and not text
            lines.append(line)
    if in_code:
        lines.append("```")
    return lines


def main() -> None:
    """Write the pages, the help of the verbs, and the schema of the files of options."""
    argparse.ArgumentParser(description="Write the pages that are made of the code.").parse_args()
    help_files.main()
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
