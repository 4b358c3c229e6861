"""A compiled run: few graphs, whatever the batches, phases and evaluations; and one that cannot be compiled."""

import pytest
import torch
from functorch.compile import make_boxed_func
from pytest import approx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounter

from tests.conftest import refused
from tests.helpers import parametrize, run
from tests.pretraining.runs import FAST, flags, make, write_corpus

pytestmark = pytest.mark.slow

EAGERLY = {"torch_compile": True, "torch_compile_backend": "eager"}
"""Options of a run that counts as compiled, but needs no compiler."""


def test_a_run_compiles_one_graph_for_each_mask_and_phase(tmp_path):
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
    variants = set()

    compute_loss = trainer.compute_loss

    def noting(model, inputs, **others):
        variants.add(("attention_mask" in inputs, trainer.phase.train_generator, tuple(inputs["input_ids"].shape)))
        return compute_loss(model, inputs, **others)

    trainer.compute_loss = noting
    torch._dynamo.reset()
    trainer.train()
    lines = [logs for logs in trainer.state.log_history if "loss" in logs]
    assert {line["train_generator"] for line in lines} == {0.0, 1.0}
    assert {shape for *_, shape in variants} == {(2, 12)}
    assert counter.frame_count == len(variants) >= 2
    assert trainer.model_wrapped is trainer.model  # accelerate has not compiled it, too


def test_nothing_is_kept_that_the_next_step_overwrites(tmp_path):
    """As of --torch_compile_mode reduce-overhead, whose graphs write to the same memory in every step."""
    write_corpus(tmp_path / "corpus.txt")
    last_results = []

    def overwriting(graph, inputs):
        def forward(*args):
            while last_results:
                last_results.pop().zero_()
            results = graph.forward(*args)
            tensors = [result for result in results if isinstance(result, torch.Tensor)]
            # The memory of weights and inputs stays.
            kept = {arg.untyped_storage().data_ptr() for arg in args if isinstance(arg, torch.Tensor)}
            last_results.extend(tensor for tensor in tensors if tensor.untyped_storage().data_ptr() not in kept)
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
    assert last_results and logged[1] == [approx(line, rel=1e-4) for line in logged[0]]


MLM = {**FAST, "objective": "mlm"}
"""Options of a run of one network, which is compiled in half the time of two."""
COMPILED_BY_DEFAULT = (
    "import torch._inductor.config as inductor; inductor.force_disable_caches = True; "
    "import electra.pretraining.configuration as configuration; "
    "configuration.compiles_by_default = lambda training: True"
)
"""Code that makes compiling the default on a CPU, too."""


@parametrize("is_asked", [True, False], ids=["asked", "default"])
def test_without_a_compiler_a_run_goes_on_or_ends_with_one_line(tmp_path, is_asked, copying):
    """The real compiler, on a machine that has no C++ compiler."""
    write_corpus(tmp_path / "corpus.txt")
    argv = [*flags(tmp_path, **MLM, max_steps=2), *(["--torch_compile", "true"] if is_asked else [])]
    variables = {"PATH": "/nonexistent", "CXX": "c++", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    outcome = {"expect": 2} if is_asked else {"before": COMPILED_BY_DEFAULT}
    output, errors = run("run_pretraining.py", argv, tmp_path, python=copying, **outcome, **variables)
    lines = [line for line in (output + errors).splitlines() if "InvalidCxxCompiler" in line]
    assert len(lines) == 1 and "--torch_compile false" in lines[0] and "Traceback" not in output + errors
    assert (tmp_path / "output" / "run" / "checkpoint-2").is_dir() is not is_asked


def test_an_unknown_mode_is_one_line(tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    message = refused(lambda: make(tmp_path, **FAST, torch_compile_mode="fastest"))
    assert "fastest" in message and "reduce-overhead" in message
