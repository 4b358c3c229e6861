"""What is wrong with a sweep file is said in one line, with what to do."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from electra.errors import UserError
from electra.sweep.definition import read_sweep
from electra.sweep.points import number_of_points
from tests.sweep.standin import HereExecutor, sweep_file, sweep_of

ROOT = Path(__file__).parents[2]
RATE = {"learning_rate": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-3}}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"method": "gird"}, "unknown method gird; did you mean grid?"),
        ({"method": None}, "no method; choose from grid random bayes"),
        ({"metod": "grid"}, "unknown key metod; did you mean method?"),
        ({"method": "bayes", "metric": None, "parameters": RATE}, "a bayes search needs a metric"),
        ({"metric": {"name": "AVG", "goal": "maximise"}}, "did you mean maximize?"),
        ({"parameters": None}, "parameters must map"),
        ({"parameters": {"seed": {"values": []}}}, "parameter seed: values must be a list with at least one"),
        ({"parameters": {"seed": 3}}, "parameter seed must be a mapping"),
        ({"parameters": {"seed": {"value": 3}}}, "give one of them several"),
        ({"parameters": RATE}, "a grid needs values for every parameter; learning_rate has a continuous"),
        ({"parameters": {"seed": {"min": 1}}}, "parameter seed: min is not possible here; choose from constant"),
        ({"parameters": {"seed": {"min": 5, "max": 1}}}, "min 5 must be less than max 1"),
        (
            {"parameters": {"x": {"min": "1e-4", "max": 1}}},
            r"got '1e-4' \(in YAML, 1e-4 is text",
        ),
        ({"parameters": {"x": {"distribution": "log_uniform_values", "min": 0, "max": 1}}}, "must be above 0"),
        ({"parameters": {"x": {"values": [1, 2], "probabilities": [0.5, 0.6]}}}, "2 numbers whose sum is 1"),
        ({"parameters": {"x": {"values": [1, 2.0, 2.0]}}}, "parameter x: its values have 2.0 twice"),
        ({"parameters": {"x": {"distribution": "beta"}}}, "distribution beta is not possible here"),
        ({"parameters": {"x": {"distribution": "uniform", "min": 1}}}, "uniform has no max; it takes min, max"),
        ({"early_terminate": {"type": "hyperband", "min_iter": 3}}, "early_terminate works with wandb's own service"),
        ({"program": "train.py"}, "program must be run_pretraining.py or run_glue.py; got 'train.py'"),
        ({"command": ["${program}", "${args_json}"]}, r"command: \$\{args_json\} works with `wandb agent` only"),
        ({"run_cap": 0}, "run_cap must be a whole number above 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    path = sweep_file(tmp_path, **keys)
    with pytest.raises(UserError, match=message) as raised:
        read_sweep(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "is not valid YAML"),
        ("- a", "got list"),
        ("", "got NoneType"),
        ("program: 2020-13-45", "is not valid YAML: month"),
        ("[" * 10_000, "is not valid YAML"),
        ("run_cap: " + "9" * 5000, "is not valid YAML"),
        ("parameters:\n  seed: {value: 1}\n  seed: {value: 2}", "seed stands twice"),
    ],
)
def test_what_is_no_sweep_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_sweep(tmp_path / "file.yaml")
    with pytest.raises(UserError, match="cannot read the sweep file"):
        read_sweep(tmp_path / "missing.yaml")


def test_a_search_without_an_end_is_refused_and_every_limit_holds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a random search has no end; add --max_runs N"):
        number_of_points(sweep_of(tmp_path, method="random", parameters=RATE), None)
    assert number_of_points(sweep_of(tmp_path, method="random", parameters=RATE, run_cap=7), 9) == 7
    seeds = {"learning_rate": {"values": [1, 2, 3]}, "seed": {"values": [1, 2]}}
    assert number_of_points(sweep_of(tmp_path, parameters=seeds), None) == 6
    assert number_of_points(sweep_of(tmp_path, parameters=seeds, run_cap=50), 4) == 4


def test_flags_of_a_command_are_kept_and_its_macros_are_not(tmp_path: Path) -> None:
    command = ["${env}", "${interpreter}", "${program}", "--bf16", "${args}", "--max_steps", 5]
    assert sweep_of(tmp_path, command=command).words == ("--bf16", "--max_steps", "5")


@pytest.mark.parametrize(
    ("parameters", "words", "message"),
    [
        ({"generator_siz": {"values": [1, 2]}}, [], "unknown option --generator_siz; did you mean --generator_size?"),
        ({"generator_size": {"values": [1, 2, "wide"]}}, [], "generator_size.*'wide'"),
        ({"generator_size": {"values": [0.5, -2]}}, [], "--generator_size -2.0 is not possible"),
        ({"generator_size": {"values": [1, 2]}}, ["--", "--max_stps", "3"], "did you mean --max_steps?"),
        ({"generator_size": {"values": [1, 2]}}, ["--", "--eval_strategy", "no"], "out --eval_strategy no"),
        ({"objective": {"values": ["mlm"]}, "seed": {"values": [1, 2]}}, [], "log no metric.*eval/mlm"),
        ({"generator_size": {"values": [1, 2]}}, ["--glue", "missing.yaml"], "cannot read --config missing.yaml"),
    ],
)
def test_what_the_scripts_would_refuse_is_refused_before_anything_starts(
    tmp_path: Path, parameters: dict[str, Any], words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, for speed; the next test has the real one."""
    from electra.sweep import __main__ as command
    from electra.sweep import check

    monkeypatch.setattr(check, "ProcessPoolExecutor", HereExecutor)
    argv = [str(sweep_file(tmp_path, parameters=parameters)), "--output_dir", str(tmp_path / "output"), *words]
    with pytest.raises(UserError, match=message):
        command.main(argv)
    assert not (tmp_path / "output").exists()


def test_the_command_says_it_on_one_line_with_exit_code_2(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, parameters={"generator_siz": {"values": [1, 2]}})
    command = [sys.executable, "-m", "electra.sweep", str(path), "--output_dir", str(tmp_path / "output")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert "did you mean --generator_size?" in result.stderr and str(path) in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--parallel", "0"], "--parallel 0 is not possible"),
        (["--max_run", "3"], "unrecognized arguments: --max_run 3; flags for the script itself go behind a lone --"),
        (["--", "--output_dir", "x"], "--output_dir of a point is set by the sweep"),
        (["--", "--experiment-name=x"], "--experiment_name of a point is set by the sweep"),
        (["--", "--auto_resume"], "--auto_resume of a point is set by the sweep"),
        (["--glue_flags", "--num_seeds 2"], "name its file, too"),
        (["--experiment_name", "a/b"], "plain folder name"),
        (["--", "--plan"], "--plan trains nothing"),
        (["--", "--learning_rate", "1e-4"], "--learning_rate is swept by .*sweep.yaml; leave it out behind --"),
        (["--", "--learning-rate=1e-4"], "--learning_rate is swept by"),
        (["--glue", "a.yaml", "--glue_flags", "--num_seeds '3"], "--glue_flags .* No closing quotation; close the"),
        (["--output_dir", "a\udcff"], r"'a\\udcff' on the command line is no UTF-8"),
        (["--", "--train_file=\udcff"], "is no UTF-8"),
    ],
)
def test_options_of_the_sweep_that_do_not_work_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    from electra.sweep.__main__ import main

    with pytest.raises(UserError, match=message):
        main([str(sweep_file(tmp_path)), *words])


@pytest.mark.parametrize(
    "keys",
    [
        {"parameters": {"output_dir": {"values": ["a", "b"]}}},
        {"command": ["${program}", "--output_dir=a", "${args}"]},
    ],
)
def test_a_file_that_sets_the_folder_of_a_point_is_refused(tmp_path: Path, keys: dict[str, Any]) -> None:
    from electra.sweep.__main__ import main

    with pytest.raises(UserError, match="--output_dir of a point is set by the sweep"):
        main([str(sweep_file(tmp_path, **keys))])


@pytest.mark.parametrize(
    ("parameters", "words", "message"),
    [
        ({"plan": {"values": [True, False]}}, [], "--plan trains nothing"),
        ({"report_to": {"values": ["none", "wandb"]}}, [], "report_to of a point is set by the sweep, not swept"),
        ({"disable_tqdm": {"values": [True, False]}}, [], "disable_tqdm of a point is set by the sweep"),
        ({"lowercase": {"values": [True, False]}}, ["--cased"], "--cased is swept by"),
        ({"adam_bias_correction": {"values": [True, False]}}, ["--no_adam_bias_correction"], "is swept by"),
    ],
)
def test_what_would_be_the_same_at_all_points_is_refused(
    tmp_path: Path, parameters: dict[str, Any], words: list[str], message: str
) -> None:
    from electra.sweep.__main__ import main

    with pytest.raises(UserError, match=message):
        main([str(sweep_file(tmp_path, parameters=parameters)), "--", *words])


@pytest.mark.parametrize(("metric", "near"), [("train/los", "train/loss"), ("train/generator_los", "generator_loss")])
def test_a_metric_of_training_that_no_run_logs_is_refused_before_anything_starts(
    tmp_path: Path, metric: str, near: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from electra.sweep import __main__ as command
    from electra.sweep import check

    monkeypatch.setattr(check, "ProcessPoolExecutor", HereExecutor)
    path = sweep_file(tmp_path, metric={"name": metric}, parameters={"seed": {"values": [1, 2]}})
    with pytest.raises(UserError, match=f"no metric {metric}; did you mean .*{near}"):
        command.main([str(path), "--output_dir", str(tmp_path / "output")])


HUGE = 10**400


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"distribution": "log_uniform", "min": 1, "max": 1000},
            "of e; log_uniform_values takes the values",
        ),
        ({"distribution": "q_log_uniform", "min": 1, "max": 1000}, "q_log_uniform_values takes the values themselves"),
        ({"distribution": "log_normal", "mu": 800}, "mu and sigma of log_normal are those of the logarithm"),
        ({"min": 1, "max": HUGE}, "a number of 1329 bits is too large"),
        ({"min": 0.5, "max": HUGE}, "a number of 1329 bits is too large"),
        ({"min": -(10**308), "max": 10**308 + 10**307 * 9}, "is too large"),
        ({"min": -1.7e308, "max": 1.7e308}, "its numbers are too large"),
        ({"values": [1, HUGE]}, "a number of 1329 bits is too large"),
        ({"values": [1, 2], "probabilities": [0, HUGE]}, "a number of 1329 bits is too large"),
        ({"distribution": "q_normal", "q": 1e-320}, "its numbers are too large"),
    ],
)
def test_numbers_that_are_too_large_are_refused(tmp_path: Path, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"parameter x: .*{message}"):
        sweep_of(tmp_path, method="random", parameters={"x": spec})


def test_equal_numbers_of_different_types_are_different_values(tmp_path: Path) -> None:
    parameters = {"x": {"values": [0, False, "0"]}}
    assert [p.values for p in sweep_of(tmp_path, parameters=parameters).parameters] == [(0, False, "0")]
