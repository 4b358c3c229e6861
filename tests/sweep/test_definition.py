"""Mistakes in sweep files and options are named in one line before anything starts."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from electra.errors import UserError
from electra.sweep import __main__ as command
from electra.sweep import check
from electra.sweep.definition import read_sweep
from electra.sweep.stages import Task
from tests.sweep.standin import HereExecutor, sweep_file, sweep_of

ROOT = Path(__file__).parents[2]
RATE = {"learning_rate": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-3}}


def x(**spec: Any) -> dict[str, Any]:
    return {"parameters": {"x": spec}, "method": "random"}


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"method": "gird"}, "gird.*grid"),
        ({"method": None}, "grid random bayes"),
        ({"metod": "grid"}, "metod.*method"),
        ({"method": "bayes", "metric": None, "parameters": RATE}, "metric"),
        ({"metric": {"name": "AVG", "goal": "maximise"}}, "maximize"),
        ({"parameters": None}, "parameters"),
        ({"parameters": {"seed": {"values": []}}}, "seed.*values"),
        ({"parameters": {"seed": 3}}, "seed"),
        ({"parameters": {"seed": {"value": 3}}}, "one value"),
        ({"parameters": RATE}, "grid.*learning_rate"),
        (x(min=1), "parameter x: min "),
        (x(min=5, max=1), "min 5.*max 1"),
        (x(min="low", max=1), "min.*'low'"),
        (x(min=1, max=10**400), "parameter x: max"),
        (x(min=float("nan"), max=1), "parameter x: min"),
        (x(distribution="log_uniform_values", min=0, max=1), "min 0"),
        (x(distribution="q_uniform", min=0, max=1, q=0), "q 0"),
        (x(distribution="int_uniform", min=0, max=1.5), "int_uniform"),
        (x(values=[1, 2.0, 2.0]), "2.0 twice"),
        (x(distribution="log_normal", mu=0, sigma=1), "log_normal.*choose from constant"),
        (x(distribution="uniform", min=1), "max"),
        ({"early_terminate": {"type": "hyperband", "min_iter": 3}}, "early_terminate"),
        ({"program": "train.py"}, "run_pretraining.py.*'train.py'"),
        ({"command": ["${program}", "${args_json}"]}, r"\$\{args_json\}"),
        ({"run_cap": 0}, "run_cap"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(tmp_path: Path, keys: dict[str, Any], named: str) -> None:
    path = sweep_file(tmp_path, **keys)
    with pytest.raises(UserError, match=named) as raised:
        read_sweep(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["a: [1", "- a", "", "program: x", "parameters:\n  s: {value: 1}\n  s: {value: 2}"])
def test_what_is_not_a_sweep_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.yaml").write_text(text)
    for name in ("file.yaml", "missing.yaml"):
        with pytest.raises(UserError, match=name):
            read_sweep(tmp_path / name)


def test_flags_of_a_command_are_kept_and_its_macros_are_not(tmp_path: Path) -> None:
    words = ["${env}", "${interpreter}", "${program}", "--bf16", "${args}", "--max_steps", 5]
    assert sweep_of(tmp_path, command=words).words == ("--bf16", "--max_steps", "5")


SIZES = {"generator_size": {"values": [1, 2]}}


@pytest.mark.parametrize(
    ("keys", "words", "named"),
    [
        ({"parameters": {"generator_siz": {"values": [1, 2]}}}, [], "--generator_siz.*--generator_size"),
        ({"parameters": {"generator_size": {"values": [1, 2, "wide"]}}}, [], "generator_size.*'wide'"),
        ({"parameters": {"generator_size": {"values": [0.5, -2]}}}, [], "--generator_size -2"),
        ({"parameters": SIZES}, ["--", "--max_stps", "3"], "--max_steps"),
        ({"parameters": SIZES}, ["--", "--eval_strategy", "no"], "--eval_strategy no"),
        ({"parameters": {"objective": {"values": ["mlm"]}, "seed": {"values": [1, 2]}}}, [], "eval/mlm"),
        ({"parameters": SIZES}, ["--glue", "missing.yaml"], "missing.yaml"),
        ({"parameters": {"seed": {"values": [1, 2]}}, "metric": {"name": "train/los"}}, [], "train/los.*train/loss"),
    ],
)
def test_what_the_scripts_would_refuse_is_refused_before_anything_starts(
    tmp_path: Path, keys: dict[str, Any], words: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "ProcessPoolExecutor", HereExecutor)
    with pytest.raises(UserError, match=named):
        command.main([str(sweep_file(tmp_path, **keys)), "--output_dir", str(tmp_path / "output"), *words])
    assert not (tmp_path / "output").exists()


def test_the_command_fails_with_one_line_and_exit_code_2(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, parameters={"generator_siz": {"values": [1, 2]}})
    words = [sys.executable, "-m", "electra.sweep", str(path), "--output_dir", str(tmp_path / "output")]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert "--generator_size" in result.stderr and str(path) in result.stderr


@pytest.mark.parametrize(
    ("keys", "words", "named"),
    [
        ({}, ["--parallel", "0"], "--parallel 0"),
        ({}, ["--max_run", "3"], "--max_run 3.*--"),
        ({}, ["--", "--output_dir", "x"], "--output_dir"),
        ({}, ["--", "--experiment-name=x"], "--experiment_name"),
        ({}, ["--", "--auto_resume"], "--auto_resume"),
        ({}, ["--glue_flags", "--num_seeds 2"], "--glue"),
        ({}, ["--experiment_name", "a/b"], "a/b"),
        ({}, ["--", "--plan"], "--plan"),
        ({}, ["--", "--learning_rate", "1e-4"], "--learning_rate .*sweep.yaml"),
        ({}, ["--", "--learning-rate=1e-4"], "--learning_rate"),
        ({}, ["--glue", "a.yaml", "--glue_flags", "--num_seeds '3"], "--glue_flags"),
        ({}, ["--", "--train_file=\udcff"], "UTF-8"),
        ({"parameters": {"output_dir": {"values": ["a", "b"]}}}, [], "--output_dir"),
        ({"command": ["${program}", "--output_dir=a", "${args}"]}, [], "--output_dir"),
        ({"parameters": {"plan": {"values": [True, False]}}}, [], "--plan"),
        ({"parameters": {"report_to": {"values": ["none", "wandb"]}}}, [], "report_to"),
        ({"parameters": {"disable_tqdm": {"values": [True, False]}}}, [], "disable_tqdm"),
        ({"parameters": {"lowercase": {"values": [True, False]}}}, ["--", "--cased"], "--cased"),
        (
            {"parameters": {"adam_bias_correction": {"values": [True, False]}}},
            ["--", "--no_adam_bias_correction"],
            "--no_adam_bias_correction",
        ),
    ],
)
def test_options_that_contradict_the_sweep_are_refused(
    tmp_path: Path, keys: dict[str, Any], words: list[str], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        command.main([str(sweep_file(tmp_path, **keys)), *words])


def test_a_bayesian_search_needs_a_metric_that_is_comparable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "ProcessPoolExecutor", HereExecutor)
    keys: dict[str, Any] = {"method": "bayes", "parameters": {"mlm_probability": {"min": 0.1, "max": 0.5}}}
    flags, glue = ("--dataset_name=builtin",), ("--tasks", "rte", "--glue_dir", str(tmp_path))
    with pytest.raises(UserError, match=r"eval/discriminator_auc .* mlm_probability.*median/TASK"):
        check.check_task(Task(sweep_of(tmp_path, **keys), flags, glue, "sweep"))
    by_glue = sweep_of(tmp_path, **keys, metric={"name": "median/rte", "goal": "maximize"})
    assert check.check_task(Task(by_glue, flags, glue, "sweep")) == ()
    with pytest.raises(UserError, match="median/rte"):
        check.check_task(Task(by_glue, flags, None, "sweep"))
