"""A compiled run: few graphs, whatever the batches, phases and evaluations; and one that cannot be compiled."""

import logging
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from functorch.compile import make_boxed_func
from pytest import approx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

from tests.conftest import refused
from tests.helpers import parametrize, run
from tests.pretraining.compilers import NO_COMPILER, failing_compiler
from tests.pretraining.runs import FAST, flags, make, write_corpus

pytestmark = pytest.mark.slow

EAGERLY = {"torch_compile": True, "torch_compile_backend": "eager"}


def test_a_run_compiles_one_graph_for_each_combination(tmp_path):
    write_corpus(tmp_path / "corpus.txt", documents=100, words=6)  # most batches are padded, some are not
    options = {
        "max_steps": 40,
        "eval_steps": 20,
        "logging_steps": 10,
        "save_strategy": "no",
        "generator_gate": ["discriminator_auc", 1.0],  # open until the first evaluation
        "segment_policy": "document",
        "max_length": 12,
        "per_device_train_batch_size": 2,
        "hidden_size": 16,
        "num_hidden_layers": 1,
    }
    trainer = make(tmp_path, **options, **EAGERLY)
    counter = CompileCounter()
    trainer.model.compile(backend=counter, fullgraph=True, dynamic=False)
    seen = set()

    compute_loss = trainer.compute_loss

    def note(model, inputs, **others):
        seen.add(("attention_mask" in inputs, trainer.phase.train_generator, tuple(inputs["input_ids"].shape)))
        return compute_loss(model, inputs, **others)

    trainer.compute_loss = note
    torch._dynamo.reset()
    trainer.train()
    lines = [logs for logs in trainer.state.log_history if "loss" in logs]
    assert {line["train_generator"] for line in lines} == {0.0, 1.0}
    assert {shape for *_, shape in seen} == {(2, 12)}
    assert counter.frame_count == len(seen) >= 2
    assert trainer.model_wrapped is trainer.model  # accelerate has not compiled it, too


def test_nothing_is_kept_that_the_next_step_overwrites(tmp_path):
    """As of --torch_compile_mode reduce-overhead, whose graphs write to the same memory in every step."""
    write_corpus(tmp_path / "corpus.txt")
    last = []

    def overwriting(graph, inputs):
        def forward(*args):
            while last:
                last.pop().zero_()
            results = graph.forward(*args)
            given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, torch.Tensor)}
            new = (t for t in results if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in given)
            last.extend(new)
            return results

        return make_boxed_func(forward)

    logged = []
    without = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "bf16": False, "save_strategy": "no"}
    for is_compiled in (False, True):
        trainer = make(tmp_path, **FAST, **without, max_steps=4, logging_steps=2)
        if is_compiled:
            backend = aot_autograd(
                fw_compiler=overwriting, bw_compiler=lambda graph, _: make_boxed_func(graph.forward)
            )
            trainer.model.compile(backend=backend, dynamic=False)
        trainer.train()
        lines = [logs for logs in trainer.state.log_history if "loss" in logs]
        logged.append([{name: logs[name] for name in ("loss", "discriminator_loss", "grad_norm")} for logs in lines])
    assert last and logged[1] == [approx(line, rel=1e-4) for line in logged[0]]


@pytest.fixture
def stance():
    """A failing compiler switches compilation off in the whole process; here only until the test ends."""
    torch._dynamo.reset()
    yield
    torch.compiler.set_stance("default")


@pytest.fixture
def told():
    """The warnings of compilation, whatever the logging of tests before has left."""
    lines = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("electra.pretraining.device")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


MLM = {**FAST, "objective": "mlm"}
"""One network, which is compiled in half the time of two."""


@parametrize("first", [1, 2])
def test_a_step_that_cannot_be_compiled_is_taken_eagerly(tmp_path, stance, told, first):
    """The same batches, the same random numbers; with the second graph, of padded rows, in the midst of a step.

    pretraining/test_device_compiling.py has the other kinds of failures.
    """
    write_corpus(tmp_path / "corpus.txt", words=40 if first == 1 else 6)
    options = {**MLM, "max_steps": 3, "logging_steps": 1, "save_strategy": "no", "bf16": False}
    if first == 2:  # the first graph may differ by rounding, and draws other numbers for dropout
        options |= {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "segment_policy": "document"}
        options |= {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 1, "max_length": 12}
    trainers = []
    for is_compiled in (False, True):
        trainer = make(tmp_path, **options, torch_compile=is_compiled)
        trainer.data_collator = replace(trainer.data_collator, length=options.get("max_length", 16))
        if is_compiled:
            trainer.args.must_compile = False  # as on a GPU, where it is the default
            trainer.model.compile(backend=failing_compiler(first, "backward", NO_COMPILER), dynamic=False)
        trainer.train()
        trainers.append(trainer)
    assert len(told) == 1 and "cannot be compiled" in told[0]
    for wanted, found in zip(*(trainer.model.parameters() for trainer in trainers), strict=True):
        assert_close(found, wanted, rtol=0, atol=0 if first == 1 else 1e-5)
    tokens = [[logs["tokens_seen"] for logs in t.state.log_history if "loss" in logs] for t in trainers]
    assert tokens[0] == tokens[1]


@pytest.mark.skipif(not find_spec("triton"), reason="no triton")
@parametrize("path", ["/nonexistent", None], ids=["no compiler", "no headers"])
def test_triton_without_a_c_compiler_or_headers(tmp_path, stance, told, monkeypatch, path):
    """What Triton raises before a kernel's first launch, when it builds the launcher in C."""
    from triton.runtime.build import _build

    source = tmp_path / "launcher.c"
    source.write_text("#include <Python.h>\n")
    program = tmp_path / "cc"
    program.write_text('#!/bin/sh\nexec gcc -nostdinc "$@"\n')
    program.chmod(0o755)
    if path is None:
        monkeypatch.setenv("CC", str(program))
    else:
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setenv("PATH", path)

    def backend(graph, inputs):
        return lambda *args: _build("launcher", str(source), str(tmp_path), [], [], [], [])

    write_corpus(tmp_path / "corpus.txt")
    trainer = make(tmp_path, **FAST, torch_compile=True, max_steps=2, save_strategy="no")
    trainer.args.must_compile = False
    trainer.model.compile(backend=backend, dynamic=False)
    trainer.train()
    (line,) = told
    assert ("C compiler" if path else "exit status") in line and "\n" not in line


COMPILED_BY_DEFAULT = (
    "import torch._inductor.config as i; i.force_disable_caches = True; "
    "import electra.pretraining.configuration as c; c.compiles_by_default = lambda training: True"
)


@parametrize("is_asked", [True, False], ids=["asked", "default"])
def test_without_a_compiler_a_run_goes_on_or_ends_with_one_line(tmp_path, is_asked, copying):
    """The real compiler, on a machine that has no C++ compiler."""
    write_corpus(tmp_path / "corpus.txt")
    argv = [*flags(tmp_path, **MLM, max_steps=2), *(["--torch_compile", "true"] if is_asked else [])]
    variables = {"PATH": "/nonexistent", "CXX": "c++", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    how = {"expect": 2} if is_asked else {"before": COMPILED_BY_DEFAULT}
    output, errors = run("run_pretraining.py", argv, tmp_path, python=copying, **how, **variables)
    told = [line for line in (output + errors).splitlines() if "InvalidCxxCompiler" in line]
    assert len(told) == 1 and "--torch_compile false" in told[0] and "Traceback" not in output + errors
    assert (tmp_path / "output" / "run" / "checkpoint-2").is_dir() is not is_asked


def test_an_unknown_mode_is_one_line(tmp_path, stance):
    write_corpus(tmp_path / "corpus.txt")
    message = refused(lambda: make(tmp_path, **FAST, torch_compile_mode="fastest"))
    assert "fastest" in message and "reduce-overhead" in message
