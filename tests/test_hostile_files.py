"""JSON of the right syntax and of a wrong shape: each file that is read is refused in one line, or does no harm."""

import copy
import json
import shutil
from contextlib import suppress
from itertools import cycle

import pytest
from transformers import ElectraConfig, ElectraForSequenceClassification

from electra.base.checkpoints import latest_valid_checkpoint, write_manifest
from electra.base.files import check_results, read_json
from electra.base.samples import Sample, write_samples
from electra.core.errors import UserError
from electra.data.shards import Sums
from electra.data.token_cache import TokenCache, find_cache_damage
from electra.finetuning.predict import open_saved
from electra.model.pretrained import load_networks
from electra.pretraining.run_folder import find_run
from electra.report.blocks import to_html, to_markdown
from electra.report.command import main as report
from electra.report.metrics import make_panels
from electra.report.page import report_blocks
from electra.report.results import Result
from electra.report.runs import read_run
from electra.tasks.classify.report import CLASSIFY_REPORTING as CLASSIFY
from electra.tasks.minimal_pairs.report import report_pairs
from tests.base.test_checkpoints import write_checkpoint
from tests.core.helpers import make_model
from tests.helpers import parametrize
from tests.report.folders import finished_run

SUMS_PATH = "cache/shard-00000-of-00001/shard.json"
WHOLE = ("[]", "{}", "5", '"x"', "null", "", "{", "[" * 100_000, '{"a":' * 100_000, b"\xff{}")
ODD = (..., None, True, -1, 0, "x", [], {}, [[5]], {"a": 5}, float("inf"), 10**30, "\ud800", "a\0")
"""Values for each entry of a file; ...: the entry is missing."""


def entries(values, place=()):
    """The places of all entries, of lists of the first two."""
    if place:
        yield place
    inner = values.items() if isinstance(values, dict) else enumerate(values[:2]) if isinstance(values, list) else ()
    for key, value in inner:
        yield from entries(value, (*place, key))


def wrong_files(content):
    """Files in place of one: wrong as a whole, or with one wrong entry; entries have the values of `ODD` in turn."""
    yield from WHOLE
    for place, odd in zip(entries(content), cycle(ODD)):
        wrong = copy.deepcopy(content)
        holder = wrong
        for key in place[:-1]:
            holder = holder[key]
        if odd is ...:
            del holder[place[-1]]
        else:
            holder[place[-1]] = odd
        yield json.dumps(wrong)


def show(folder):
    """The page of a run, without pictures."""
    run = read_run(folder)
    make_panels([run])
    to_html("title", report_blocks([run], {}))


def show_results(reporting, folder):
    """The report on an evaluation, in both formats."""
    report_of_folder = reporting([folder])
    to_markdown(report_of_folder.blocks)
    to_html(report_of_folder.title, report_of_folder.blocks)


def open_tokens(folder):
    """Read a document of a token cache whose checksums are right."""
    if find_cache_damage(folder) is None:
        cache = TokenCache(folder)
        cache.tokens(0, 0, 1), cache.line_lengths(0)


@pytest.fixture(scope="module")
def world(tmp_path_factory, make_cache, framed_tokenizer):
    """A folder with one of each file; nothing is trained."""
    folder = tmp_path_factory.mktemp("world")
    write_samples([Sample(["a"], None, ["b"], [0.5], None)], finished_run(folder / "run"), 100)
    for step in (4, 8):
        write_checkpoint(folder / "resumed", step)
    tokens = make_cache([[[7, 8], [9]], [[10]]]).path
    shutil.copytree(tokens, folder / "cache")
    (folder / "cache" / "manifest.json").unlink()  # whoever writes the files writes the checksums
    result = Result("w", 42, {"accuracy": 0.5}, False, 1.0, "pretrained", "m", 5, {"dev": 4}, {"max_length": 16})
    made = folder / "evaluation"
    (made / "predictions").mkdir(parents=True)
    (made / "results.jsonl").write_text(json.dumps(vars(result)) + "\n")
    (made / "environment.json").write_text(json.dumps({"kind": "classify", "host": "h"}))
    (made / "predictions" / "w-42-details.json").write_text(json.dumps({"range": [0, 1], "text": "t"}))
    accuracy = {"accuracy": 0.5, "standard_error": None, "pairs": 3}
    scores = {"pll": {"overall": accuracy, "phenomena": {"p": accuracy}, "paradigms": {"q": accuracy}}}
    (folder / "pairs").mkdir()
    margin = {"baseline": "guessing", "difference": 0.1, "standard_error": 0.05}
    parts = {"per_token": scores, "baselines": {}, "margins": {"pll": margin}, "unequal_share": 0.5}
    (folder / "pairs" / "minimal_pairs.json").write_text(json.dumps({"model": "m", "scores": scores, **parts}))
    saved = made / "models" / "w"
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
    config = ElectraConfig(vocab_size=len(framed_tokenizer), embedding_size=16, max_position_embeddings=32, **size)
    ElectraForSequenceClassification(config).save_pretrained(saved)
    framed_tokenizer.save_pretrained(saved)
    (saved / "result.json").write_text(json.dumps(vars(result)))
    joint = folder / "joint"
    make_model(vocab_size=len(framed_tokenizer)).save_pretrained(joint)
    framed_tokenizer.save_pretrained(joint)
    return folder


def resume(world):
    """Open the run again, whose newest checkpoint has the checksums of what is there."""
    write_manifest(world / "resumed" / "checkpoint-8")
    find_run(world / "resumed", None)


READERS = [
    ("resumed/checkpoint-8/manifest.json", lambda world: latest_valid_checkpoint(world / "resumed")),
    ("resumed/checkpoint-8/trainer_state.json", resume),
    ("resumed/checkpoint-8/origin.json", resume),
    ("run/trainer_state.json", lambda world: show(world / "run")),
    ("run/samples.json", lambda world: show(world / "run")),
    ("cache/cache.json", lambda world: open_tokens(world / "cache")),
    (SUMS_PATH, lambda world: read_json(world / SUMS_PATH, Sums)),
    ("evaluation/results.jsonl", lambda world: show_results(CLASSIFY.report, world / "evaluation")),
    ("evaluation/environment.json", lambda world: report([str(world / "evaluation")])),
    ("evaluation/predictions/w-42-details.json", lambda world: show_results(CLASSIFY.report, world / "evaluation")),
    ("evaluation/models/w/result.json", lambda world: open_saved(str(world / "evaluation"))),
    ("evaluation/models/w/config.json", lambda world: open_saved(str(world / "evaluation"))),
    pytest.param("joint/config.json", lambda world: load_networks(str(world / "joint")), marks=pytest.mark.slow),
    ("pairs/minimal_pairs.json", lambda world: show_results(report_pairs, world / "pairs")),
    ("pairs/minimal_pairs.json", lambda world: check_results(world / "pairs", "minimal_pairs.json", {"model": "m"})),
]


@parametrize(("name", "read"), READERS)
def test_a_file_of_another_shape_is_refused_or_does_no_harm(world, name, read):
    path = world / name
    before = path.read_text()
    read(world)
    try:
        for wrong in wrong_files(json.loads(before)):
            path.write_bytes(wrong if isinstance(wrong, bytes) else f"{wrong}\n".encode())
            try:
                with suppress(UserError):
                    read(world)
            except Exception as error:
                pytest.fail(f"{type(error).__name__}: {error} for {wrong[:500]!r}")
    finally:
        path.write_text(before)


def test_a_bad_manifest_does_not_hide_older_checkpoints(world):
    path = world / "resumed" / "checkpoint-8" / "manifest.json"
    before = path.read_text()
    for wrong in wrong_files(json.loads(before)):
        path.write_bytes(wrong if isinstance(wrong, bytes) else wrong.encode())
        assert latest_valid_checkpoint(world / "resumed").name == "checkpoint-4", wrong[:500]
    path.write_text(before)
