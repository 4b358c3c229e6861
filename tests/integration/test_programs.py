"""What a program keeps that uses the toolkit: its processes, its signals, and the settings of the whole process."""

import subprocess
import sys

import pytest

from tests.helpers import ENVIRONMENT, ROOT, read_json
from tests.pretraining.runs import write_corpus

BEGINNING = """
import json, multiprocessing, resource, signal, sys, threading, time

import torch
from transformers import TrainerCallback

from electra import ElectraForJointPretraining, ElectraTrainer, ElectraTrainingArguments, SegmentArguments
from electra import fine_tune, finish_run, predict, replaced_token_probabilities, tokenize_corpus, train_tokenizer
from electra.runtime import device

text, folder = sys.argv[1:]
device.has_amx = lambda: False  # so that the faster products are used on any processor of this kind
observed = {}


def settings():
    signals = [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)]
    products = [torch.get_float32_matmul_precision(), torch.backends.mkldnn.matmul.fp32_precision]
    return [*products, torch.backends.cuda.matmul.allow_tf32, torch.get_num_threads(), *signals]


def bytes_taken():  # from the system; what is freed goes back to it
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        torch.ones(12_000_000).add(1).sum()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize()


class Fails(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        raise RuntimeError("the program's own error")


class Looks(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        observed["inside"] = [torch.backends.mkldnn.matmul.fp32_precision, torch.get_num_threads()]


def make(name, callback, workers=0):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "embedding_size": 16}
    model = ElectraForJointPretraining.from_recipe("small", tokenizer, max_position_embeddings=32, **sizes)
    args = ElectraTrainingArguments(
        f"{folder}/{name}", max_steps=2, per_device_train_batch_size=4, dataloader_num_workers=workers,
        threads=1, disable_tqdm=True, use_cpu=True,
    )
    segments = SegmentArguments(max_length=16, validation_fraction=0.2)
    trainer = ElectraTrainer(model, args, corpus, processing_class=tokenizer, segments=segments)
    trainer.add_callback(callback())
    return trainer


def error_of(trainer):
    try:
        trainer.train()
    except Exception as error:
        return str(error)


pool = multiprocessing.get_context("fork").Pool(1)
daemon = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
daemon.start()
torch.set_num_threads(2)
tokenizer = train_tokenizer(text, vocab_size=120, cache_dir=f"{folder}/cache")
corpus = tokenize_corpus(text, tokenizer, cache_dir=f"{folder}/cache")
before = settings()
"""
WHOLE = """
trainer = make("run", Looks)
trainer.train()
finish_run(trainer)
replaced_token_probabilities("the cat", trainer.model, tokenizer)
rows = [{"text": word * 3, "label": word} for word in ("cat", "dog")] * 12
tuned = fine_tune(
    trainer.model, rows, rows, processing_class=tokenizer, num_seeds=1, num_train_epochs=1, max_length=16,
    output_dir=folder, threads=1, use_cpu=True,
)
predict(tuned, ["cat"])
observed["settings"] = [before, settings()]
observed["taken"] = bytes_taken()

observed["errors"] = [error_of(make("failing", Fails, workers=2))]
thread = threading.Thread(target=lambda: observed["errors"].append(error_of(make("in_thread", Fails, workers=2))))
thread.start()
thread.join()
observed["daemon"] = daemon.is_alive()
observed["pool"] = pool.apply(abs, (-1,))
with open(f"{folder}/observed.json", "w") as file:
    json.dump(observed, file)
"""
FAILING = """
make("last", Fails, workers=2).train()  # ends the program, whose workers are still there
"""


def run_program(python, code, folder):
    """Return exit code and errors of a program that uses the toolkit below a folder."""
    text = write_corpus(folder / "corpus.txt")
    command = [python, "-c", BEGINNING + code, str(text), str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_a_program_keeps_its_processes_signals_and_settings(tmp_path):
    code, errors = run_program(sys.executable, WHOLE, tmp_path)
    assert code == 0, errors
    observed = read_json(tmp_path / "observed.json")
    before, after = observed["settings"]
    assert before == after and before[3] == 2  # threads of the program
    assert observed["inside"][1] == 1  # threads of the run
    assert observed["errors"] == ["the program's own error"] * 2
    assert observed["daemon"] and observed["pool"] == 1
    if sys.platform == "linux":
        assert observed["taken"] > 200e6  # 288 MB are written, and none is kept


@pytest.mark.slow
def test_an_error_ends_a_program_that_has_processes(tmp_path, copying):
    code, errors = run_program(copying, FAILING, tmp_path)
    assert code == 1 and errors.endswith("RuntimeError: the program's own error\n")
