"""The table at the end of a run, character by character, and the token counts behind its baseline."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from electra.data.token_cache import TokenCache
from electra.objectives import OBJECTIVES
from electra.pretraining import results
from electra.pretraining.results import ROWS, results_table, rows_of, token_counts, training_names, without_prefix
from electra.samples import read_samples
from run_pretraining import main as pretrain
from tests.pretraining.runs import FAST, flags, make, write_corpus

UNTRAINED = {name: 0.5 for name, _ in ROWS} | {"generator_loss": 10.25, "masked_accuracy_kept_token": math.nan}
FREQUENCIES = {"generator_loss": 7.0, "masked_accuracy": 0.0625, "sampled_accuracy": 0.03, "discriminator_auc": 0.75}
TRAINED = {name: 0.25 for name, _ in ROWS} | {"discriminator_mcc": -0.125, "tokens": 1000.0}


def test_the_table_is_aligned_and_empty_where_there_is_no_value() -> None:
    table = results_table({"untrained": UNTRAINED, "frequencies": FREQUENCIES, "trained": TRAINED})
    assert table.splitlines() == [
        "                           untrained  frequencies   trained",
        "generator loss (nats)        10.2500       7.0000    0.2500",
        "generator accuracy            0.5000       0.0625    0.2500",
        "  where it saw [MASK]         0.5000                 0.2500",
        "  where it saw the token                             0.2500",
        "  of its samples              0.5000       0.0300    0.2500",
        "replaced tokens               0.5000                 0.2500",
        "discriminator loss (nats)     0.5000                 0.2500",
        "discriminator accuracy        0.5000                 0.2500",
        "  precision                   0.5000                 0.2500",
        "  recall                      0.5000                 0.2500",
        "  F1                          0.5000                 0.2500",
        "  MCC                         0.5000                -0.1250",
        "discriminator AUC             0.5000       0.7500    0.2500",
    ]


def test_a_short_title_leaves_room_for_its_numbers() -> None:
    lines = results_table({"a": {"generator_loss": 10.123}, "b": {"generator_loss": 9.0}}).splitlines()
    assert len(lines) == len(ROWS) + 1
    assert lines[0] == " " * 27 + "       a" + "         b"
    assert lines[1] == "generator loss (nats)".ljust(27) + " 10.1230" + "    9.0000"
    assert lines[2:] == [label for _, label in ROWS[1:]]


@pytest.mark.parametrize("uniform_generator", [False, True])
@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_the_rows_are_all_metrics_of_the_evaluation_but_the_loss_and_the_number_of_tokens(
    objective: str, uniform_generator: bool
) -> None:
    from electra.pretraining.metrics import Field, evaluation_metrics

    records = np.zeros((1, 2, len(Field)), dtype=np.float32)
    metrics = set(evaluation_metrics(records, 50.0, objective, uniform_generator))
    rows = [name for name, _ in rows_of(objective, uniform_generator)]
    assert rows == list(dict.fromkeys(rows))
    assert set(rows) == metrics - {"loss", "tokens"}


def test_the_table_of_an_objective_has_its_rows_alone() -> None:
    assert rows_of("electra") == rows_of("electra_15") == rows_of("two_stage") == ROWS
    assert set(rows_of("adversarial")) - set(ROWS) == {("generator_entropy", "  entropy (nats)")}
    assert rows_of("electra", uniform_generator=True) == ROWS[5:]
    values = {name: 0.25 for name, _ in rows_of("mlm")}
    assert results_table({"trained": values}, rows_of("mlm")).splitlines() == [
        "                           trained",
        "MLM loss (nats)             0.2500",
        "MLM accuracy                0.2500",
        "  where it saw [MASK]       0.2500",
        "  where it saw another      0.2500",
        "  where it saw the token    0.2500",
    ]
    assert without_prefix({"eval_mlm_loss": 1.0, "eval_masked_accuracy": 0.5}, rows=rows_of("mlm")) == {
        "mlm_loss": 1.0
    }


def test_metrics_lose_their_prefix_and_what_is_not_of_the_table_is_left_out() -> None:
    metrics = {"eval_generator_loss": 7, "eval_runtime": 3.0, "generator_loss": 1.0, "step": 4, "eval_tokens": 2.0}
    assert without_prefix(metrics) == {"generator_loss": 7.0}
    assert without_prefix({"test_masked_accuracy": 0.5}, prefix="test_") == {"masked_accuracy": 0.5}


def test_token_counts_are_those_of_the_documents_given(make_cache: Callable[..., TokenCache]) -> None:
    random = np.random.default_rng(0)
    documents = [
        [random.integers(5, 25, size=length).tolist() for length in random.integers(1, 9, size=2)]
        for _ in range(2500)  # more than are read at a time
    ]
    cache = make_cache(documents)
    chosen = np.sort(random.choice(2500, size=1800, replace=False))
    counts = token_counts(cache, chosen, 6000)
    tokens = [token for d in chosen for line in documents[d] for token in line]
    assert counts.dtype == np.int64 and counts.shape == (6000,)
    assert counts.tolist() == np.bincount(tokens, minlength=6000).tolist()


def test_token_counts_of_no_documents_are_zero(make_numbered_cache: Callable[..., TokenCache]) -> None:
    assert not token_counts(make_numbered_cache([5, 5]), np.array([], dtype=np.int64), 20).any()


def test_token_counts_of_a_large_corpus_are_of_evenly_spread_documents(
    make_numbered_cache: Callable[..., TokenCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = make_numbered_cache([10] * 20)
    monkeypatch.setattr(results, "MAX_COUNTED_TOKENS", 60)
    counts = token_counts(cache, np.arange(20), 205)
    assert counts.sum() <= 60
    assert (np.flatnonzero(counts[5:]) // 10).tolist() == [d for d in range(0, 20, 4) for _ in range(10)]


@pytest.mark.parametrize("objective", ["electra", "mlm", "replace_mlm", "adversarial"])
def test_the_names_of_the_training_log_are_known_before_the_run(folder: Path, objective: str) -> None:
    trainer = make(folder, **{**FAST, "hidden_size": 32}, objective=objective, max_steps=4)
    trainer.train()
    logged = {name for line in trainer.state.log_history for name in line} - {"step", "epoch"}
    assert logged <= set(training_names(objective))
    assert {"loss", "grad_norm", "learning_rate", "tokens_per_second"} <= logged


def test_a_run_that_diverged_ends_with_its_samples_and_its_report(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    options = {"learning_rate": 1e30, "max_grad_norm": 0, "max_steps": 3, "save_strategy": "no"}
    pretrain(flags(tmp_path, **options))
    run = tmp_path / "output" / "run"
    assert all(sample.probabilities == [None] * len(sample.original) for sample in read_samples(run))
    assert (run / "metrics.json").is_file() and "P(replaced) undefined" in (run / "report.html").read_text()
