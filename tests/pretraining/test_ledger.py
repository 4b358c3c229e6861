"""Cost of a run: time off the log, utilization by its definition, energy across a kill; and the same of a real run."""

import json
import logging
from pathlib import Path

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from electra.hardware import EnergyMeter
from electra.pretraining.callbacks.cost import EnergyLog, compute_ledger, ledger_line, training_seconds
from electra.pretraining.plan import Plan
from run_pretraining import main
from tests.pretraining.runs import flags, write_corpus
from tests.test_hardware import package

LOGS = [
    {"step": 5, "tokens_seen": 1000, "tokens_per_second": 100},
    {"step": 5, "eval_loss": 1.0, "eval_runtime": 3.0},
    {"step": 10, "tokens_seen": 3000, "tokens_per_second": 400},
]


def test_time_is_that_of_the_windows_and_the_rest_is_taken_at_their_mean_rate() -> None:
    assert training_seconds(LOGS, 3000) == pytest.approx(10 + 5)
    assert training_seconds(LOGS, 3600) == pytest.approx(15 * 1.2)
    assert training_seconds(LOGS[1:2], 3000) is None


def test_utilization_is_what_the_model_needs_over_what_the_devices_could_do(plan: Plan, tmp_path: Path) -> None:
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[])
    state = TrainerState(global_step=6, num_input_tokens_seen=3000, log_history=LOGS)
    ledger = compute_ledger(state, args, plan, peak_flops=1e6)
    assert ledger["flops"] == pytest.approx(plan.flops / 2)  # 6 of 12 steps
    assert ledger["google_flops"] == pytest.approx(plan.google_flops / 2)
    assert (ledger["tokens"], ledger["dtype"], ledger["devices"]) == (3000, "float32", 1)
    assert ledger["training_seconds"] == pytest.approx(15) and ledger["evaluation_seconds"] == 3.0
    assert ledger["tokens_per_second"] == pytest.approx(200)
    assert ledger["mfu"] == pytest.approx(plan.flops / 2 / (15 * 1e6))
    assert "energy_joules" not in ledger and "kWh" not in ledger_line(ledger)
    state.log_history = [*LOGS, {"step": 12, "energy_joules": 7.2e6, "energy_source": "RAPL"}]
    assert "2 kWh (RAPL)" in ledger_line(compute_ledger(state, args, plan, peak_flops=1e6))


def test_energy_goes_on_where_the_log_ended_and_half_of_it_is_not_told(tmp_path: Path) -> None:
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[])
    for known, step, expected in (([], 0, 4.0), ([{"energy_joules": 10.0}], 5, 14.0), ([], 5, None)):
        package(tmp_path, "intel-rapl:0", 1_000_000)
        state = TrainerState(global_step=step, log_history=[*known])
        callback = EnergyLog(EnergyMeter(tmp_path, poll_seconds=60))
        callback.on_train_begin(args, state, TrainerControl())
        state.log_history.append({"loss": 1.0})
        package(tmp_path, "intel-rapl:0", 5_000_000)
        callback.on_log(args, state, TrainerControl())
        callback.on_train_end(args, state, TrainerControl())
        said = state.log_history[-1].get("energy_joules")
        if expected is None:
            assert said is None
        else:
            assert said >= expected and said == pytest.approx(expected, abs=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ledger")
    write_corpus(folder / "corpus.txt")
    main(flags(folder))
    return folder


def test_a_run_leaves_its_log_its_cost_its_samples_and_its_report(folder: Path) -> None:
    run = folder / "output" / "run"
    metrics = json.loads((run / "metrics.json").read_text())
    compute, plan = metrics["compute"], metrics["plan"]
    assert compute["tokens"] == plan["total_tokens"] and compute["flops"] == plan["flops"]
    assert 0 < compute["mfu"] < 1.5 and compute["peak_flops_per_second"] > 1e9
    assert json.loads((run / "trainer_state.json").read_text())["global_step"] == 12
    samples = json.loads((run / "samples.json").read_text())["samples"]
    assert len(samples) == 5 and all(len(s["probabilities"]) == len(s["original"]) for s in samples)
    assert {"report.html", "training_curves.png"} <= {path.name for path in run.iterdir()}
    page = (run / "report.html").read_text()
    assert page.count('<dl class="sample">') == 5 and "<li>" not in page.split("<h2>")[0]  # nothing is missing
    card = (run / "discriminator" / "README.md").read_text()
    assert "license" not in card and "| cost | " in card
    assert "python run_pretraining.py --train_file=" in card and "learning_rate: 0.001" in card
    assert f"{plan['google_flops']:.2e} by the original's count" in card


def test_the_plan_trains_nothing_and_leaves_no_run_behind(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    package_logger = logging.getLogger("electra")
    before = {path.name for path in (folder / "output").iterdir()}
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("electra.pretraining").addHandler(handler)
    try:
        main([*flags(folder, experiment_name="planned"), "--plan"])
        main([*flags(folder, output_dir=tmp_path / "new"), "--plan"])
    finally:
        logging.getLogger("electra.pretraining").removeHandler(handler)
    assert package_logger is not None
    assert {path.name for path in (folder / "output").iterdir()} == before
    assert list(tmp_path.iterdir()) == []
    names = {line[:15].strip() for line in said}
    assert {"corpus", "discriminator", "training", "compute", "memory", "disk", "trial"} <= names
    trial = next(line for line in said if line.startswith("trial"))
    assert trial.startswith("trial          10 steps of ") and "tokens/s: about " in trial
    disk = next(line for line in said if line.startswith("disk"))
    assert "3 checkpoints of" in disk
