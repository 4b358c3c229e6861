"""What a run leaves at its end: its cost, with the time from the log; log, samples and report."""

import pytest
from huggingface_hub import ModelCard
from pytest import approx
from transformers import TrainerState, TrainingArguments

from electra.base.samples import read_samples
from electra.pretraining.callbacks import compute_ledger, training_seconds
from electra.pretraining.run import main
from electra.report.metrics import make_panels
from tests.helpers import read_json
from tests.pretraining.runs import flags

pytestmark = pytest.mark.slow

LOGS = [
    {"step": 5, "tokens_seen": 1000, "tokens_per_second": 100},
    {"step": 5, "eval_loss": 1.0, "eval_runtime": 3.0},
    {"step": 10, "tokens_seen": 3000, "tokens_per_second": 400},
]


def test_time_is_that_of_the_log_s_windows_and_other_tokens_take_their_mean():
    assert training_seconds(LOGS, 3000) == approx(10 + 5)
    assert training_seconds(LOGS, 3600) == approx(15 * 1.2)
    assert training_seconds(LOGS[1:2], 3000) is None


def test_the_cost_is_that_of_the_steps_taken(plan, tmp_path):
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[])
    state = TrainerState(global_step=6, num_input_tokens_seen=3000, log_history=LOGS)
    ledger = compute_ledger(state, args, plan)
    assert ledger["flops"] == approx(plan.flops / 2)  # 6 of 12 steps
    assert ledger["google_flops"] == approx(plan.google_flops / 2)
    assert (ledger["tokens"], ledger["dtype"], ledger["devices"]) == (3000, "float32", 1)
    assert ledger["training_seconds"] == approx(15)
    assert ledger["tokens_per_second"] == approx(200)


def test_a_run_leaves_its_log_cost_samples_and_report(finished_run):
    metrics = read_json(finished_run / "metrics.json")
    compute = metrics["compute"]
    plan = metrics["plan"]
    assert compute["tokens"] == plan["total_tokens"] and compute["flops"] == plan["flops"]
    assert compute["peak_flops_per_second"] > 0  # measured, on whatever is busy
    assert read_json(finished_run / "trainer_state.json")["global_step"] == 12
    samples = read_samples(finished_run)
    assert len(samples) == 5 and all(sample.probabilities for sample in samples)
    page = (finished_run / "report.html").read_text()
    assert page.count('<p class="sample">') == 10  # a part and the whole of each
    card = ModelCard.load(finished_run / "discriminator" / "README.md")
    assert (card.data.license, card.data.language) == ("mit", ["en"])
    facts = ("| compute | ", "max_steps: 12", "learning_rate: 0.001")
    assert all(fact in card.text for fact in facts)
    trained = metrics["held_out"]["trained"]
    assert trained != metrics["held_out"]["untrained"]
    assert all(f"| {value:.4g} |" in card.text for value in trained.values())


def test_a_run_that_diverged_has_its_samples_and_report(folder, monkeypatch):
    monkeypatch.setattr("electra.report.page.make_panels", make_panels)  # as without `short_end`
    main(flags(folder, learning_rate=1e30, max_grad_norm=0, max_steps=3, save_strategy="no"))
    run = folder / "output" / "run"
    assert all(sample.probabilities == [None] * len(sample.original) for sample in read_samples(run))
    assert (run / "metrics.json").is_file() and "P(replaced) undefined" in (run / "report.html").read_text()


def test_the_log_of_a_run_has_one_line_for_each_event_and_no_bar(folder, capfd):
    """In a pipe; log.txt has the same lines, and goes on where the run is resumed."""
    main(flags(folder, disable_tqdm=False, max_steps=8, save_steps=4))
    captured = capfd.readouterr()
    events = [line for line in captured.out.splitlines() if line.startswith("step ")]
    steps = [0, 4, 6, 8, 8, 8, 8]  # evaluation, log, evaluation; log, evaluation, checkpoint and verdict
    assert [line.split(":")[0] for line in events] == [f"step {step}" for step in steps]
    for output in (captured.out, captured.err):
        assert "\r" not in output and "\x1b" not in output and "it/s" not in output and "{'" not in output
    log = folder / "output" / "run" / "log.txt"
    first = log.read_text()
    assert all(line in first for line in events) and "discriminator " in first.split("step 0")[0]
    main(flags(folder, disable_tqdm=False, max_steps=12, save_steps=4, auto_resume=True))
    assert log.read_text().startswith(first) and "step 12: loss" in log.read_text()[len(first) :]
