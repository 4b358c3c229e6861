"""The three commands of rc2020_electra's README, word for word, on local text; its efficiency table and its curves."""

import shlex
import shutil

import pytest

from electra.pretraining.run import main as pretrain
from electra.report.command import main as report
from electra.report.metrics import make_panels
from electra.report.results import read_results
from electra.tasks.glue.task import main as glue
from electra.tasks.glue.tasks import GLUE_TASKS
from electra.tokenizers.command import main as train_tokenizer
from tests.helpers import ROOT, read_json
from tests.pretraining.runs import write_corpus
from tests.tasks.glue.files import write_glue

pytestmark = pytest.mark.slow

COMMANDS = {
    train_tokenizer: "python train_tokenizer.py --output_dir models",
    pretrain: "python run_pretraining.py --mlm_probability 0.15  --mlm_replacement_probability 0.85 --max_length 128 "
    "--per_device_train_batch_size 128 --gradient_accumulation_steps 1 --logging_steps 3840 --eval_steps 12800 "
    "--save_steps 1280000 --experiment_name pretraining_OWT --generator_layer_size 1.0 --generator_size 0.25",
    glue: 'python run_glue.py  --experiment_name "electra_replication_6-25" '
    "--pretrain_path pretrained_model/checkpoint-1000000",
}
"""https://github.com/cccwam/rc2020_electra, README."""


def run(main, *more):
    """Run a command of the README with more options that name local data and make the run short."""
    words = shlex.split(COMMANDS[main])
    main([*words[2:], *shlex.split(" ".join(more))])


def test_the_commands_of_the_readme_run_to_the_end_and_are_reported_in_other_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("electra.report.page.make_panels", make_panels)  # all panels
    write_corpus(tmp_path / "corpus.txt")
    write_glue(tmp_path / "glue_data")
    run(train_tokenizer, "--train_file corpus.txt --vocab_size 120")
    small = "--hidden_size 64 --embedding_size 16 --num_hidden_layers 1 --intermediate_size 32 --max_eval_segments 20"
    timed = "--logging_first_step true"  # 3,840 steps between two lines are more than this run has
    run(pretrain, "--train_file corpus.txt --tokenizer_path models --max_steps 2 --disable_tqdm", timed, small)
    folder = tmp_path / "output" / "pretraining_OWT"
    logs = read_json(folder / "trainer_state.json")["log_history"]
    assert [line["step"] for line in logs if "eval_loss" in line] == [0, 2]  # intervals are in steps, not in samples
    plan = read_json(folder / "metrics.json")["plan"]
    assert (plan["batch_size"], plan["max_length"]) == (128, 128)
    shutil.copytree(folder / "checkpoint-2", tmp_path / "pretrained_model" / "checkpoint-1000000")
    run(glue, "--glue_dir glue_data --num_seeds 1 --num_train_epochs 1 --disable_tqdm --max_length 32")
    scores = tmp_path / "output" / "electra_replication_6-25"
    assert {result.task for result in read_results(scores / "results.jsonl")} == {*GLUE_TASKS}

    report([str(folder), "--glue", str(scores)])
    page = (folder / "report.html").read_text()
    for row in ("pretraining_OWT", "GPT", "DistilBERT", "ELECTRA-Small, original", "ELECTRA-Small, rc2020_electra"):
        assert f">{row}</t" in page
    for names, panel in (("rc2020", "is_fake_token_AUC"), ("google", "sampled_masked_lm_accuracy")):
        report([str(folder), f"--names={names}"])
        assert panel in (folder / f"report_{names}.html").read_text()
        assert (folder / f"training_curves_{names}.png").stat().st_size > 0
    assert "is_fake_token_AUC" not in (folder / "report.html").read_text()


def test_the_commands_are_those_of_the_page():
    page = (ROOT / "docs" / "reference_flags.md").read_text()
    assert all(command in page for command in COMMANDS.values())
