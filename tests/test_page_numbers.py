"""Numbers and messages on the pages are those of the code: a changed default, limit or sentence is found there."""

import ast
import re
import signal
import tomllib

from docs.reference import parameters_of
from docs.schema import VERBS_WITH_CONFIG
from electra.base.command_line import CommandLine
from electra.base.options import default_of
from electra.core.recipes import RECIPES
from electra.data.corpus import WHOLE_BYTES
from electra.finetuning.config import FITTED_EPOCHS, NARROW_DEFAULTS, PAPER_DEFAULTS
from electra.finetuning.heads import BILSTM_UNITS
from electra.finetuning.labelled.labels import MOST_WHOLE_NUMBERS
from electra.finetuning.labelled.metrics import CALIBRATION_RANGES
from electra.finetuning.task import COLLAPSED_SHARE
from electra.finetuning.trainer import LEAST_GAIN
from electra.finetuning.words import MOST_REGRESSIONS
from electra.pretraining.callbacks import FREQUENCIES_AUC, LEAD, START_BUDGET
from electra.pretraining.device import MOST_WORKERS
from electra.pretraining.metrics import MAX_COUNTED_TOKENS
from electra.pretraining.options import BUDGET_SIZES, DEFAULT_BUDGET
from electra.pretraining.plan import FEW_TOKENS, MOST_EPOCHS
from electra.pretraining.stopping import OUT_OF_TIME
from electra.pretraining.timing import TIMED_STEPS
from electra.report.page import STARTED
from electra.report.verdict import FEW_STEPS, FEWEST_EXAMPLES, SMALL_NETWORK
from electra.tasks.classify.task import CLASSIFY
from electra.tasks.glue.report import MOST_FITTED
from electra.tasks.squad.task import SQUAD
from electra.tasks.tagging.task import TAGGING
from electra.tokenizers.extend import LONGEST_TOKEN
from electra.tokenizers.train import LONGEST_WORD
from electra.tokenizers.unknown import WARN_UNKNOWN_RATE
from electra.tools.commands import SPINS
from electra.tools.probes import FOLDS, MOST_PAIRS, MOST_TEXTS
from tests.helpers import ROOT, parametrize
from tests.pretraining.test_find_run import STATES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LEAST, MOST = FITTED_EPOCHS
NARROW = NARROW_DEFAULTS
TINY = parameters_of("tiny")["discriminator"] / 1e6


def default(verb, name):
    """The default of an option of a verb."""
    return default_of(CommandLine(VERBS_WITH_CONFIG[verb], "test").options[name][0])


def number(value):
    """A number as the pages write it: 1,000, .05, 1e-3."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.0e}".replace("e-0", "e-") if value < 0.01 else f"{value:g}".removeprefix("0")


def needed(package):
    """The lowest version of a package that is supported."""
    (line,) = (line for line in PROJECT["dependencies"] if re.match(rf"{package}\W", line))
    return re.search(r">=([\d.]+)", line)[1]


def facts():
    """Sentences of pages by page, with the numbers of the code."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    least, below = map(int, re.search(r"\(3, (\d+)\) <= sys.version_info < \(3, (\d+)\)", makefile).groups())
    pythons = f"Python 3.{least} to 3.{below - 1}"
    rates = [number(row.learning_rate) for row in PAPER_DEFAULTS]
    cpu, accelerator = BUDGET_SIZES["cpu"], BUDGET_SIZES["accelerator"]
    within = {size: hours for sizes in (cpu, accelerator) for hours, size in sizes.items()}
    words = {3: "three", 4: "four", 5: "five", 10: "ten", 24: "a day", 30: "thirty", 40: "forty"}
    squad = {name: default("squad", name) for name in ("max_query_length", "doc_stride", "max_answer_length")}
    return {
        "README.md": [
            f"{TINY:.1f} million parameters",
            pythons,
        ],
        "docs/start.md": [
            pythons,
            f"transformers {needed('transformers')} or newer",
            f"torch {needed('torch')} or newer",
            f"trains for {NARROW.steps} steps or more",
            f"more than {number(LEAD)} above token frequencies",
        ],
        "docs/choose.md": [
            f"Below {FEWEST_EXAMPLES} rows in the development set",
            f"about {10 * FEWEST_EXAMPLES} labels",
            f"beyond {MOST_EPOCHS} epochs the plan warns",
            f"{rates[0]} (small), {rates[1]} (base), {rates[2]} (large)",
            f"the default is {number(NARROW.learning_rate)} without decay for encoders narrower than {NARROW.below}",
        ],
        "docs/classify.md": [
            f"fewer than {FEW_STEPS} steps, less than {SMALL_NETWORK / 1e6:.0f} M parameters",
            f"Encoders narrower than {NARROW.below}",
            f"as many epochs as {NARROW.steps} steps take, from {LEAST} to {MOST}",
            f"with fewer than {FEWEST_EXAMPLES} texts there is no verdict",
            f"more than `--max_length` tokens ({CLASSIFY.max_length})",
            f"naive Bayes for more than {MOST_REGRESSIONS} classes",
            f"If more than {WARN_UNKNOWN_RATE:.0%} of the tokens".replace("%", " %"),
            f"a gain of more than {LEAST_GAIN:g}".replace("0.", "."),
        ],
        "docs/clusters.md": [
            f"after `--ddp_timeout` seconds ({default('pretrain', 'ddp_timeout')})",
            f"| {OUT_OF_TIME} | `--max_hours` have passed",
            ", ".join(str(128 + code) for code in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM)),
            f"`small` has {RECIPES['small']['per_device_train_batch_size']} sequences, so "
            f"{RECIPES['small']['per_device_train_batch_size'] // 8} on each of 8 GPUs",
            f"Above {WHOLE_BYTES // 10**9} GB of text",
        ],
        "docs/continue.md": [f"need a newer transformers than {needed('transformers')}"],
        "docs/data.md": [
            f"{default('pretrain', 'validation_fraction'):.0%} of the documents are held out".replace("%", " %"),
            f"more than {MOST_WHOLE_NUMBERS} different whole numbers",
        ],
        "docs/glue.md": [
            f"with {default('glue', 'num_seeds')} seeds instead of 10",
            f"at most {MOST_FITTED:,} training rows",
        ],
        "docs/judge.md": [
            f"Started means: {number(LEAD)} above it, at least {number(LEAD + FREQUENCIES_AUC)}",
            f"beyond {MOST_EPOCHS} it warns",
        ],
        "docs/metrics.md": [
            f"more than {MAX_COUNTED_TOKENS // 10**6} million tokens",
            f"({CALIBRATION_RANGES} ranges of probability)",
            f"at least {COLLAPSED_SHARE:.0%} of a development set".replace("%", " %"),
        ],
        "docs/pretraining.md": [
            f"`tiny` below {words[within['tiny']]} hours, `mini` below {words[within['mini']]}, else `small`",
            f"a GPU `small` below {words[next(iter(accelerator))]}, else `base`",
            f"(`--budget {DEFAULT_BUDGET}`)",
            f"at most {MOST_EPOCHS} epochs",
            f"the time of {words[TIMED_STEPS]} steps",
            f"cross-validated in {words[FOLDS]} parts",
            f"{MOST_PAIRS} pairs and {number(MOST_TEXTS)} texts are drawn",
            f"after {START_BUDGET // 10**6} million tokens and twice the warm-up",
            *(
                f"| `{name}` | {row['num_hidden_layers']} x {row['hidden_size']}, {row['intermediate_size']} | "
                f"{round(row['num_hidden_layers'] * row['generator_layer_size'])} x "
                f"{round(row['hidden_size'] * row['generator_size'])} | {row.get('vocab_size', 30522):,} | "
                f"{row['max_steps']:,} x {row['per_device_train_batch_size']} x {row['max_length']} |"
                for name, row in RECIPES.items()
                if name in ("tiny", "mini", "modern-small")
            ),
        ],
        "docs/questions.md": [f"Windows have {SQUAD.max_length} tokens"],
        "docs/fidelity.md": [
            f"questions of {squad['max_query_length']} tokens, a stride of {squad['doc_stride']}, answers of "
            f"{squad['max_answer_length']}",
            f"two layers of {BILSTM_UNITS} units",
            f"at most {default('pretrain', 'max_eval_segments')} segments",
        ],
        "docs/guarantees.md": [f"{len(STATES)} states of a folder"],
        "docs/speed.md": [
            f"Up to {words[MOST_WORKERS]} worker processes",
            f"after {int(SPINS):,} turns",
        ],
        "docs/tagging.md": [
            f"`--max_length` is {TAGGING.max_length}",
            f"Encoders narrower than {NARROW.below}",
            f"as many epochs as {NARROW.steps} steps take, from {LEAST} to {MOST}",
        ],
        "docs/terms.md": [
            f"at least {number(LEAD)} above that of token frequencies and at least {number(LEAD + FREQUENCIES_AUC)}",
            f"after {START_BUDGET // 10**6} million",
        ],
        "docs/tokenizer.md": [f"at most {LONGEST_TOKEN} characters", f"more than {LONGEST_WORD:,} letters or digits"],
        "docs/troubles.md": [
            f"more than {FEWEST_EXAMPLES} texts",
            f"below {FEW_TOKENS:,} tokens",
            f"a newer transformers than {needed('transformers')}",
        ],
        "docs/results.md": [f"`tiny`: {TINY:.1f} M parameters"],
    }


FACTS = [(page, text) for page, texts in facts().items() for text in texts]


@parametrize("page, text", FACTS, ids=[f"{page}-{text[:30]}" for page, text in FACTS])
def test_a_page_has_the_number_of_the_code(page, text):
    assert text in " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_the_page_of_a_run_has_the_bounds_from_which_a_discriminator_has_started():
    bounds = f"at least {number(LEAD)} above that of token frequencies and at least {number(LEAD + FREQUENCIES_AUC)}"
    assert bounds in STARTED


def test_names_that_pages_place_in_a_file_are_there():
    pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
    placed = [
        (page, name, path)
        for page in pages
        for name, path in re.findall(
            r"`(\w+)` (?:in|of)\s\[[^\]]*\]\(([^)#]+\.py)\)", page.read_text(encoding="utf-8")
        )
    ]
    assert placed
    for page, name, path in placed:
        assert re.search(rf"\b{name}\b", (page.parent / path).read_text(encoding="utf-8")), f"{page.name}: {name}"


def sentences_of_code():
    """All strings of the package, with a mark for each value in them."""
    for path in (ROOT / "electra").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)


def test_the_messages_of_the_page_of_troubles_are_those_of_the_code():
    page = (ROOT / "docs" / "troubles.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (?!transformers|Windows)([^|]*) \|", page, re.MULTILINE)
    messages = [text for cell in cells for text in re.findall(r"`([^`]*)`", cell) if text.count(" ") > 1]
    assert len(messages) > 20
    sentences = "\n".join(sentences_of_code())
    for message in messages:
        pieces = (re.sub(r"'text'|\d+", "@", piece.strip()) for piece in message.split("...") if piece.strip())
        for piece in pieces:
            assert re.search(re.escape(piece).replace("@", "[^\n]{1,20}"), sentences), message
