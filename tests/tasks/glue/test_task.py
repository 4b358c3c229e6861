"""run_glue.py: its options, and on a tiny GLUE what it writes, what it repeats, what it refuses."""

import json
import shutil
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from pytest import approx, raises
from transformers import AutoModelForSequenceClassification, AutoTokenizer, ElectraConfig, ElectraModel, pipeline

from electra.base.files import CONFIGS
from electra.core.errors import UserError
from electra.finetuning.config import resolve_hyperparameters
from electra.finetuning.data import Examples
from electra.finetuning.evaluation import Evaluation
from electra.finetuning.heads import Encoder, load_encoder
from electra.report.command import main as report
from electra.report.results import read_results
from electra.tasks.glue.task import main as glue
from electra.tasks.glue.task import open_tasks, parse_glue_arguments, submit
from electra.tasks.glue.tasks import AVG_TASKS, GLUE_TASKS, KNOWN_TASKS
from tests.conftest import refused
from tests.helpers import contents, parametrize, read_json
from tests.tasks.glue.files import flags, write_encoder, write_glue
from tests.tasks.glue.runs import result

pytestmark = pytest.mark.slow

# ---- options


def parse(*argv):
    """Return the arguments of a command line."""
    return parse_glue_arguments(["--pretrain_path", "somewhere", *argv])


def settings(task, *argv, hidden_size=256):
    """Return the hyperparameters of a task with an encoder of this width."""
    config = ElectraConfig(vocab_size=10, hidden_size=hidden_size, num_hidden_layers=0, num_attention_heads=1)
    with torch.device("meta"):
        return resolve_hyperparameters(parse(*argv), task, Encoder(ElectraModel(config), None, "somewhere", 512))


@parametrize(
    ("hidden_size", "learning_rate", "decay"),
    [(256, 3e-4, 0.8), (768, 1e-4, 0.8), (1024, 5e-5, 0.9)],
)
def test_without_options_it_is_table_7_of_the_paper(hidden_size, learning_rate, decay):
    tuning = settings("cola", hidden_size=hidden_size)
    assert (tuning.learning_rate, tuning.layerwise_lr_decay) == (learning_rate, decay)
    assert (tuning.num_train_epochs, tuning.per_device_train_batch_size, tuning.max_length) == (3, 32, 128)
    assert (tuning.warmup_steps, tuning.weight_decay, tuning.head, tuning.head_dropout) == (0.1, 0.0, "google", 0.1)
    assert (tuning.layerwise_lr_decay_mode, tuning.select) == ("paper", "last")
    assert [settings(task).num_train_epochs for task in ("rte", "stsb", "mrpc", "mnli")] == [10, 10, 3, 3]
    paper = ("--config", str(CONFIGS / "glue" / "paper.yaml"))
    assert settings("rte", *paper) == settings("rte") and parse(*paper).options.num_seeds == 10


@parametrize(
    ("name", "expected"),
    [
        ("google", {"learning_rate": 1e-4, "layerwise_lr_decay_mode": "google", "weight_decay": 0.01,
                    "adam_bias_correction": False, "product_schedule": True, "head": "google"}),
        ("rc2020", {"learning_rate": 3e-4, "layerwise_lr_decay_mode": "rc2020", "weight_decay": 0.01,
                    "head": "mean_pool"}),
        ("lmtuners", {"learning_rate": 1e-4, "layerwise_lr_decay": 1.0, "head": "hf", "num_train_epochs": 5}),
    ],
)  # fmt: skip
def test_configurations_have_the_protocols_of_their_sources(name, expected):
    tuning = vars(settings("rte", "--config", str(CONFIGS / "glue" / f"{name}.yaml")))
    assert {option: tuning[option] for option in expected} == expected
    args = parse("--config", str(CONFIGS / "glue" / f"{name}.yaml"))
    assert args.options.start_from_mnli == (["stsb", "rte"] if name == "lmtuners" else [])
    assert args.options.tasks == list(AVG_TASKS if name == "lmtuners" else GLUE_TASKS)


def test_flags_override_overrides_which_override_the_file():
    assert settings("rte", "--num-train-epochs=2").num_train_epochs == 2
    assert settings("rte", "--learning_rate", "1e-5").num_train_epochs == 10
    lmtuners = ("--config", str(CONFIGS / "glue" / "lmtuners.yaml"))
    assert settings("cola", *lmtuners).learning_rate == 2e-5
    tuning = settings("cola", *lmtuners, "--learning_rate", "7e-5")
    assert (tuning.learning_rate, tuning.num_train_epochs) == (7e-5, 10)
    overrides = json.dumps({"STS-B": {"learning_rate": 2e-5, "select": "best", "max_length": None}})
    tuning = settings("stsb", "--task_overrides", overrides)
    assert (tuning.learning_rate, tuning.select, tuning.num_train_epochs, tuning.max_length) == (2e-5, "best", 3, 128)


def test_tasks_run_in_the_order_of_the_tables():
    assert parse("--tasks", "RTE", "sts-b", "CoLA").options.tasks == ["cola", "stsb", "rte"]
    assert parse("--tasks", "rte,cola,rte").options.tasks == ["cola", "rte"]
    assert parse().options.tasks == list(GLUE_TASKS)
    words = (["demo"], ["demo", "--num_seeds=1"], ["demo,cola"])
    seeds = [parse("--tasks", *names).options.num_seeds for names in words]
    assert seeds == [3, 1, 5]  # the demonstration has a configuration of its own


@parametrize(
    ("words", "message"),
    [
        ("--tasks colla", "'colla'.*cola"),
        ("--start_from_mnli mnli", "--start_from_mnli mnli"),
        ("--tasks cola --start_from_mnli rte", "--start_from_mnli rte"),
        ('--task_overrides {"rte":{"num_seeds":3}}', "rte: num_seeds"),
        ('--task_overrides {"rte":{"learning_rate":"fast"}}', "learning_rate"),
        ('--task_overrides {"rt":{"learning_rate":1e-3}}', "'rt'"),
        ("--task_overrides rte", "--task_overrides rte"),
    ],
)
def test_bad_options_are_refused(words, message):
    with raises(UserError, match=message):
        parse(*words.split())


# ---- runs

OPTIONS = {"bf16": False, "learning_rate": 1e-2, "predict_test": "ensemble", "save_model": True, "head": "hf"}
STARTED = {"tasks": list(GLUE_TASKS), "start_from_mnli": ["rte", "stsb"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, glue_tokenizer):
    """A finished evaluation of all tasks in output/run; not to be changed."""
    folder = tmp_path_factory.mktemp("glue")
    write_encoder(folder / "encoder", glue_tokenizer)
    write_glue(folder / "glue")
    glue(flags(folder, **OPTIONS, **STARTED))
    return folder


@pytest.fixture
def copy(folder, tmp_path):
    """A copy of `folder`, which may be changed."""
    return shutil.copytree(folder, tmp_path / "copy")


def results_of(folder):
    """Return the results of the evaluation below a folder."""
    return read_results(folder / "output" / "run" / "results.jsonl")


def predictions(folder, run, name="run"):
    """Return the logits of a run by split."""
    return dict(np.load(folder / "output" / name / "predictions" / f"{run}.npz"))


def test_a_whole_evaluation_has_every_task_and_seed(folder):
    results = results_of(folder)
    assert [(run.task, run.seed) for run in results[:2]] == [("mnli", 42), ("mnli", 43)]  # others start from it
    assert {(run.task, run.seed) for run in results} == {(task, seed) for task in GLUE_TASKS for seed in (42, 43)}
    by_task = {run.task: run for run in results if run.seed == 42}
    both = {"accuracy_matched", "accuracy_mismatched", "ece_matched", "ece_mismatched"}
    assert set(by_task["mnli"].metrics) == {*both, "accuracy"}
    for name, task in KNOWN_TASKS.items():
        if name not in ("mnli", "demo"):
            assert set(by_task[name].metrics) == {*task.metrics, *(() if task.is_regression else ["ece"])}
    assert by_task["mrpc"].rows == {"train": 24, "dev": 12} and by_task["mrpc"].settings["learning_rate"] == 1e-2
    assert [name for name in by_task if by_task[name].settings["double_unordered"]] == ["mrpc", "stsb"]
    report([str(folder / "output" / "run"), "--output", str(folder / "again")])
    assert (folder / "again" / "report.md").read_bytes() == (folder / "output" / "run" / "report.md").read_bytes()
    names = {path.name for path in (folder / "output" / "run").iterdir()}
    assert names >= {"report.md", "report.html", "config.yaml", "environment.json", "submission.zip"}
    assert {name: values.shape for name, values in predictions(folder, "mnli-42").items()} == {
        "dev": (12, 3), "dev_mismatched": (12, 3), "test": (6, 3), "test_mismatched": (6, 3), "ax": (6, 3),
    }  # fmt: skip


def test_interrupted_and_started_again_it_ends_in_the_same_file(folder, copy, monkeypatch):
    shutil.rmtree(copy / "output" / "run")
    command = flags(copy, **OPTIONS, **{**STARTED, "tasks": ["cola", "rte", "stsb"]}, pretrain_path=folder / "encoder")
    append = Evaluation.add

    def stop(self, finished_run):
        if len(self.results) == 3:
            assert "dev" in self.read_logits(
                finished_run.task, finished_run.seed
            )  # the line that ends a run comes last
            raise KeyboardInterrupt
        append(self, finished_run)

    monkeypatch.setattr(Evaluation, "add", stop)
    with raises(KeyboardInterrupt):
        glue(command)
    assert len(results_of(copy)) == 3
    monkeypatch.setattr(Evaluation, "add", append)
    glue(command)
    assert results_of(copy) == [run for run in results_of(folder) if run.task in ("mnli", "cola", "stsb", "rte")]


def test_a_task_can_start_from_the_best_run_of_mnli(folder, copy):
    results = results_of(folder)
    best = max(
        (run for run in results if run.task == "mnli"), key=lambda run: (run.metrics["accuracy"], -run.seed)
    ).seed
    assert {run.start for run in results if run.task in ("rte", "stsb")} == {f"mnli-{best}"}
    assert {run.start for run in results if run.task not in ("rte", "stsb")} == {"pretrained"}
    glue(flags(copy, tasks=["rte"], experiment_name="plain", num_seeds=1, bf16=False, learning_rate=1e-2))
    assert np.abs(predictions(copy, "rte-42", "plain")["dev"] - predictions(folder, "rte-42")["dev"]).max() > 1e-3


@parametrize(("chosen", "first"), [("best", "entailment"), ("ensemble", "not_entailment")])
def test_a_submission_is_of_the_best_usable_run_or_of_all(chosen, first, tmp_path, capsys):
    results = [result("rte", seed, {"accuracy": seed / 100}) for seed in (42, 43, 44)]
    args = parse("--tasks", "cola", "--num_seeds", "3", "--predict_test", chosen)  # RTE was another command's
    tasks = open_tasks(args)
    assert tasks[0].settings["predicts_test"] == "yes"  # results without a test set are not taken for finished
    evaluation = Evaluation(args, None, tasks, tmp_path, results)
    for seed, logits in ((42, [[0, 3], [0, 3]]), (43, [[1, 0], [0, 1]]), (44, [[np.nan, 0], [0, 0]])):
        evaluation.write_logits("rte", seed, {"test": np.array(logits, dtype=np.float32)})
    submit(evaluation)
    with zipfile.ZipFile(tmp_path / "submission.zip") as archive:
        assert archive.read("RTE.tsv").decode().split()[3::2] == [first, "not_entailment"]


def test_pairs_without_order_are_doubled_unless_a_task_says_no(folder, monkeypatch):
    demo = {"train": Examples(["a"] * 24, None, [0] * 24), "dev": Examples(["b"], None, [1])}
    monkeypatch.setattr("electra.tasks.glue.data.demo_data", lambda: demo)

    def rows(*argv):
        names = ["mrpc", "stsb", "rte", "demo"]
        args = parse("--glue_dir", str(folder / "glue"), "--max_length", "32", "--tasks", *names, *argv)
        encoder = load_encoder(str(folder / "encoder"))
        tuning = resolve_hyperparameters(args, "rte", encoder)
        loaded = {task.name: task.load(encoder.tokenizer, tuning) for task in open_tasks(args)}
        assert {name: data.examples["train"] for name, data in loaded.items()} == dict.fromkeys(names, 24)
        labels = {name: data.splits["dev"].rows.columns["labels"].tolist() for name, data in loaded.items()}
        assert sorted(set(labels["stsb"])) == [0, 0.5, 1]  # 0.0, 2.5 and 5.0 in the file
        assert labels["demo"] == [1]
        return {name: len(data.train) for name, data in loaded.items()}

    assert rows() == {"mrpc": 48, "stsb": 48, "rte": 24, "demo": 24}
    assert rows("--task_overrides", '{"mrpc": {"double_unordered": false}}')["mrpc"] == 24
    assert rows("--double_unordered", "false")["stsb"] == 24


def test_other_settings_and_data_are_not_mixed_in(copy, glue_tokenizer):
    before = contents(copy / "output" / "run")

    def check_refused(message, **options):
        with raises(UserError, match=message):
            glue(flags(copy, **{**OPTIONS, **STARTED, **options}))
        assert contents(copy / "output" / "run") == before  # config.yaml, too

    check_refused("learning_rate", learning_rate=1e-3)
    check_refused("start is mnli, best .* pretrained", start_from_mnli=["stsb"])
    check_refused("head is hf .* google", num_seeds=3, head="google", save_model=False)
    train = copy / "glue" / "RTE" / "train.tsv"
    train.write_text(train.read_text().replace("\tentailment", "\tnot_entailment"))
    check_refused(r"train_data is \w{12} .* \w{12}")
    write_encoder(copy / "encoder", glue_tokenizer, seed=1)  # other weights under the same name
    check_refused("encoder", tasks=["cola"], start_from_mnli=None)


def test_what_is_lost_is_made_again(copy):
    run = copy / "output" / "run"
    before = contents(run)
    (run / "models" / "cola").rename(run / "models" / ".cola.unfinished")
    shutil.rmtree(run / "encoders" / "mnli-42")
    # The second seed alone, while the lost files are those of the best seed, 42.
    second_seed = {"tasks": ["cola", "rte"], "start_from_mnli": ["rte"], "seed": 43, "num_seeds": 1}
    glue(flags(copy, **{**OPTIONS, **STARTED, **second_seed}))
    after = contents(run)
    results = {path for path in before if path.suffix in (".npz", ".jsonl", ".safetensors")}
    assert results and {path for path in results if after.get(path) != before[path]} == set()


def test_saved_models_are_those_of_the_best_seeds(folder):
    for name, headline, columns in (("cola", "mcc", (3,)), ("stsb", "spearman", (2, 3))):
        runs = [run for run in results_of(folder) if run.task == name]
        best = min(runs, key=lambda run: (-(run.metrics[headline] or -2), run.seed)).seed
        model = folder / "output" / "run" / "models" / name
        assert read_json(model / "result.json")["seed"] == best
        lines = (folder / "glue" / KNOWN_TASKS[name].title / "dev.tsv").read_text().splitlines()[name != "cola" :]
        texts = [[line.split("\t")[column] for line in lines] for column in columns]
        opened = AutoModelForSequenceClassification.from_pretrained(model).eval()
        inputs = AutoTokenizer.from_pretrained(model)(*texts, padding=True, return_tensors="pt")
        expected = predictions(folder, f"{name}-{best}")["dev"]
        assert opened(**inputs).logits.detach().numpy() == approx(expected, abs=1e-4)
        assert (opened.config.problem_type == "regression") == (name == "stsb")
        assert ("0, 5" in (model / "README.md").read_text()) == (name == "stsb")  # the scale of the scores
        if name == "cola":
            answer = pipeline("text-classification", model=str(model))(texts[0][0])[0]
            assert answer["label"] == KNOWN_TASKS[name].labels[expected[0].argmax()]


def test_the_same_command_again_repeats_nothing(folder, capsys):
    before = contents(folder)
    glue(flags(folder, **OPTIONS, **STARTED))
    assert contents(folder) == before
    glue([*flags(folder, **OPTIONS, **{**STARTED, "num_seeds": 3}), "--plan"])
    shown = capsys.readouterr().out
    assert "9 runs, 18 finished" in shown and contents(folder) == before


def test_bert_ltr_has_the_protocol_of_berts_left_to_right_network():
    config = ("--config", str(CONFIGS / "glue" / "bert_ltr.yaml"))
    tuning = settings("mnli", *config)
    assert (tuning.left_to_right, tuning.head, tuning.learning_rate) == (True, "hf", 3e-5)
    assert tuning.layerwise_lr_decay == 1.0
    assert settings("mnli", *config, "--head", "bilstm").head == "bilstm"
    assert parse(*config).options.tasks == ["sst2", "mrpc", "mnli", "qnli"]
    overrides = json.dumps({"rte": {"left_to_right": True}})  # it is decided for the encoder, not for a task
    assert "left_to_right" in refused(lambda: parse("--task_overrides", overrides))


def test_lmtuners_electra_has_the_papers_values_but_for_rte():
    config = ("--config", str(CONFIGS / "glue" / "lmtuners_electra.yaml"))
    assert settings("rte", *config).learning_rate == 2e-5
    assert settings("cola", *config) == replace(settings("cola"), head="hf")
