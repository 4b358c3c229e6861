"""Each wrong command ends with exit code 2 and one line that names what is wrong, and writes nothing of a run.

Conditions of single options are in tests/test_command_line.py.
"""

from pathlib import Path

import pytest

from tests.bad_input.commands import (
    GLUE,
    PRETRAIN,
    TOKENIZER,
    Case,
    cut,
    edit,
    edit_json,
    flip,
    refused,
    remove,
    write,
)  # fmt: skip

DONE, LAST, FIRST = "output/done", "output/done/checkpoint-4", "output/done/checkpoint-2"
RESUME = {"experiment_name": "done", "resume_from_checkpoint": "true", "max_steps": 6}
COLA, RTE, STSB = "glue/CoLA/train.tsv", "glue/RTE/dev.tsv", "glue/STS-B/dev.tsv"
WORKERS = {"dataloader_num_workers": 1}
GATE = {"eval_strategy": "steps"}


def cases(script: str, *rows: tuple) -> list[Case]:
    return [Case(script, *row) for row in rows]


def values(script: str, option: str, named: dict[str, str], **others: object) -> list[Case]:
    """One case for each value of an option."""
    return [Case(script, {option: value, **others}, words) for value, words in named.items()]


OPTIONS = [
    *cases(
        PRETRAIN,
        ({"max_stepz": 4}, "--max_stepz --max_steps"),
        ({"gradient_accumulation_steps": 10**19}, "options"),
        ({"mlm_replacement_probability": 0.9, "mlm_random_probability": 0.2}, "--mlm_random_probability 0.9 0.2"),
        ({"objective": "mlm", "generator_size": None, "mlm_replacement_probability": 0.95}, "0.95 0.1"),
        *(
            ({"objective": "mlm", "generator_size": None, name: value}, f"--{name} mlm")
            for name, value in (
                ("temperature", 2),
                ("discriminator_weight", 50),
                ("disallow_correct", True),
                ("tie", "word"),
                ("generator_type", "bert"),
                ("init_generator", "encoder"),
                ("generator_size", 0.5),
            )
        ),
        ({"generator_type": "uniform", "generator_size": 0.5}, "--generator_size --generator_type"),
        ({"generator_type": "uniform", "tie": "word"}, "--tie --generator_type"),
        ({"generator_type": "uniform", "mlm_replacement_probability": 0.5}, "--mlm_replacement_probability uniform"),
        ({"generator_type": "uniform", "objective": "adversarial"}, "--generator_type adversarial"),
        ({"generator_type": "bert", "generator_size": 1.0, "hidden_size": 32}, "--tie embeddings"),
        ({"discriminator_type": "bert", "embedding_size": 8}, "--embedding_size 8 bert"),
        ({"discriminator_type": "albert", "gradient_checkpointing": True}, "--gradient_checkpointing albert"),
        ({"discriminator_type": "gpt2"}, "gpt2"),
        ({"objective": "replace_mlm", "tie": "gdes"}, "--tie gdes replace_mlm"),
        ({"objective": "two_stage"}, "--generator_size 1"),
        ({"objective": "two_stage", "tie": "all"}, "--tie all two_stage"),
        ({"objective": "two_stage", "generator_size": 1.0, "tie_embedding_projection": True}, "projection two_stage"),
        ({"objective": "two_stage", "generator_size": 1.0, "max_steps": 1}, "1"),
        ({"generator_steps": 3}, "--generator_steps electra"),
        ({"hidden_size": 33}, "33 multiple"),
        ({"generator_size": 0.01}, "0.01"),
        ({"max_length": 64}, "--max_length 64 32"),
        ({"vocab_size": 8, "tokenizer_path": None}, "vocab_size=8"),
        ({"optim_args": "nonsense"}, "optim"),
        ({"optim": "adafactor", "adam_bias_correction": False}, "adam_bias_correction"),
        ({"report_to": "nonsense"}, "--report_to nonsense"),
        ({"report_to": "clearml"}, "--report_to clearml installed"),
        ({"deepspeed": "no.json"}, "deepspeed"),
        ({"fsdp": "nonsense"}, "fsdp"),
        ({"fsdp": "full_shard", "use_cpu": True}, "--fsdp"),
        ({"logging_steps": 0}, "logging_steps"),
        ({"generator_gate": "loss", **GATE}, "--generator_gate loss THRESHOLD"),
        ({"dataloader_prefetch_factor": 2}, "dataloader_prefetch_factor"),
        ({"dataloader_prefetch_factor": 0, **WORKERS}, "--dataloader_prefetch_factor 0"),
        ({"dataloader_persistent_workers": True}, "--dataloader_persistent_workers --dataloader_num_workers"),
        ({"dataloader_multiprocessing_context": "nope", **WORKERS}, "--dataloader_multiprocessing_context nope"),
        ({"push_to_hub": True}, "--push_to_hub"),
        ({"debug": "tpu_metrics_debug"}, "--debug tpu_metrics_debug"),
        ({"accelerator_config": '{"gradient_accumulation_kwargs": {"nope": 4}}'}, "nope"),
        ({"label_smoothing_factor": 0.1}, "--label_smoothing_factor 0.1"),
        ({"neftune_noise_alpha": 5}, "--neftune_noise_alpha 5"),
        ({"metric_for_best_model": "nope", "save_strategy": "best"}, "--metric_for_best_model nope discriminator_auc"),
        ({"gradient_checkpointing_kwargs": "[1]"}, "--gradient_checkpointing_kwargs"),
        ({"torch_compile_mode": "nonsense"}, "nonsense"),
        ({"output_dir": "corpus.txt/below"}, "--output_dir corpus.txt/below"),
        ({"cache_dir": "corpus.txt/below"}, "--cache_dir corpus.txt/below"),
        ({"cache_dir": ""}, "--cache_dir"),
        ({"auto_resume": True, "resume_from_checkpoint": "true"}, "--auto_resume --resume_from_checkpoint"),
    ),
    *values(
        PRETRAIN,
        "gradient_checkpointing_kwargs",
        {
            '{"nope": 1}': "--gradient_checkpointing_kwargs nope use_reentrant",
            '{"context_fn": "nope"}': "--gradient_checkpointing_kwargs use_reentrant",
        },
        gradient_checkpointing=True,
    ),
    *(
        Case(PRETRAIN, {"lr_scheduler_type": name, "lr_scheduler_kwargs": kwargs}, "--lr_scheduler_type")
        for name, kwargs in (
            ("cosine_with_restarts", '{"num_cycles": "x"}'),
            ("polynomial", '{"power": -1}'),
            ("inverse_sqrt", '{"timescale": 0}'),
        )
    ),
    *values(
        PRETRAIN,
        "experiment_name",
        {"a/b": "--experiment_name a/b", "": "--experiment_name", "n" * 300: "--output_dir nnn"},
    ),
    *cases(
        GLUE,
        ({"task": "cola"}, "--task --tasks"),
        ({"tasks": "colla"}, "colla cola"),
        ({"tasks": ","}, "--tasks"),
        ({"num_seeds": 0}, "--num_seeds 0"),
        ({"learning_rate": 2}, "--learning_rate 2"),
        ({"num_train_epochs": "inf"}, "--num_train_epochs inf"),
        ({"max_length": 4}, "--max_length 4"),
        ({"max_length": 4096}, "4096 32"),
        ({"head": "big"}, "head big"),
        ({"adam_epsilon": 1e-50}, "--adam_epsilon 1e-50"),
        ({"start_from_mnli": "rte"}, "--start_from_mnli rte --tasks"),
        ({"experiment_name": ".."}, "--experiment_name .."),
        ({"output_dir": "corpus.txt/below"}, "--output_dir corpus.txt"),
        ({"report_to": "nonsense"}, "--report_to nonsense"),
    ),
    *values(
        GLUE,
        "task_overrides",
        {
            "{": "--task_overrides",
            "[1]": "--task_overrides",
            '{"rte": {"seed": 3}}': "seed",
            '{"rte": {"learning_rate": "x"}}': "--task_overrides rte learning_rate",
            '{"xyz": {"learning_rate": 1e-3}}': "xyz",
        },
    ),
    *cases(
        TOKENIZER,
        ({"vocab_sise": 100}, "--vocab_sise --vocab_size"),
        ({"vocab_size": 10}, "vocab_size=10"),
        ({"min_frequency": 10**6}, "min_frequency"),
        ({"max_documents": 0}, "--max_documents 0"),
        ({"cased": "maybe"}, "--cased maybe"),
        ({"output_dir": "encoder"}, "encoder"),
        ({"output_dir": "corpus.txt"}, "corpus.txt"),
        ({"output_dir": "corpus.txt/a"}, "corpus.txt/a"),
        ({"train_file": None}, "--train_file --dataset_name"),
    ),
]

YAML = [
    *(
        Case(PRETRAIN, {"config": f"configs/{name}.yaml", "learning_rate": None, "experiment_name": None}, named)
        for name, named in {
            "missing": "--config configs/missing.yaml",
            "folder": "--config configs/folder.yaml",
            "tabs": "configs/tabs.yaml line 1",
            "list": "configs/list.yaml list",
            "text": "configs/text.yaml str",
            "twice": "configs/twice.yaml",
            "typo": "--max_step configs/typo.yaml --max_steps",
            "several": "'2'",
            "latin": "configs/latin.yaml",
            "nan": "learning_rate nan",
            "control": "configs/control.yaml",
            "python": "configs/python.yaml python/object",
        }.items()
    ),
    Case(PRETRAIN, {"config": "configs/no_corpus.yaml", "train_file": None}, "--train_file --dataset_name"),
    Case(PRETRAIN, {"config": "binary.txt"}, "binary.txt YAML"),
    Case(PRETRAIN, {"config": ""}, "--config"),
    Case(GLUE, {"config": "configs/tasks.yaml", "tasks": None}, "3 cola"),
    Case(GLUE, {"config": "configs/overrides.yaml"}, "--task_overrides"),
]

FILES = {
    "missing.txt": "missing.txt",
    "missing*.txt": "missing*.txt",
    "zero.txt": "zero.txt",
    "blank.txt": "blank.txt",
    "binary.txt": "binary.txt",
    "latin.txt": "latin.txt UTF-8",
    "utf16.txt": "utf16.txt UTF-8",
    "body.jsonl": "body.jsonl 'text' body --text_column",
    "cut.jsonl": "cut.jsonl line 2",
    "list.jsonl": "list.jsonl line 1",
    "number.jsonl": "number.jsonl line 1 int",
    "surrogate.jsonl": "surrogate.jsonl line 1",
    "body.csv": "body.csv 'text' id body --text_column",
    "ragged.csv": "ragged.csv line 2",
    "open.csv": "open.csv line 2",
    "paper.pdf": "paper.pdf",
    "fake.txt.gz": "fake.txt.gz",
    "cut.txt.gz": "cut.txt.gz",
    "fake.zip": "fake.zip",
    "fake.parquet": "fake.parquet",
    "body.parquet": "body.parquet 'text' body",
    "no_files": "no_files",
    "saved": "saved --dataset_name",
}

CORPORA = [
    *values(TOKENIZER, "train_file", FILES),
    *values(
        PRETRAIN,
        "train_file",
        {
            "": "train_file",
            "zero.txt": "zero.txt",
            "short.txt": "segment",
            "one.txt": "--validation_fraction",
            "chinese.txt": "chinese.txt --tokenizer_path",
        },
    ),
    *cases(
        PRETRAIN,
        ({"validation_file": "missing.txt"}, "missing.txt"),
        ({"validation_file": "corpus.txt"}, "corpus"),
        ({"dataset_name": "saved", "train_file": None}, "saved"),
        ({"dataset_name": "", "train_file": None}, "dataset_name ''"),
        ({"dataset_name": "text", "train_file": None}, "'text'"),
        ({"dataset_name": "no-such/set", "train_file": None}, "no-such/set"),
        ({"dataset_config_name": "en"}, "dataset_config_name 1"),
        ({"dataset_sampling": 1.5}, "dataset_sampling 1.5"),
        ({"dataset_sampling": 0}, "dataset_sampling 0"),
        ({"text_column": "", "train_file": "body.jsonl"}, "''"),
    ),
]

TOKENIZERS = [
    *values(
        PRETRAIN,
        "tokenizer_path",
        {
            "": "--tokenizer_path",
            **{name: name for name in ("./none", "no/such-tokenizer", "no_tok", "only_config", "cut_tok", "null_tok")},
            **{name: name for name in ("garbage_tok", "list_tok", "bad_config_tok", "list_config_tok", "remote_tok")},
            "maskless": "maskless [MASK]",
            "specials": "specials 5",
            "latin_vocab": "latin_vocab UTF-8",
            "corpus.txt": "corpus.txt",
            "body.jsonl": "body.jsonl",
        },
    ),
    Case(GLUE, {"tokenizer_path": "garbage_tok"}, "garbage_tok"),
    Case(GLUE, {"tokenizer_path": "maskless"}, "maskless"),
]

CHECKPOINTS = [
    *cases(
        PRETRAIN,
        ({"resume_from_checkpoint": "true"}, "output/run"),
        ({**RESUME, "resume_from_checkpoint": f"{DONE}/checkpoint-3"}, "checkpoint-3"),
        ({**RESUME, "resume_from_checkpoint": "corpus.txt"}, "corpus.txt"),
        ({**RESUME, "resume_from_checkpoint": "no_files"}, "no_files"),
        ({**RESUME, "max_steps": 3}, "checkpoint-4 --max_steps 3"),
        ({**RESUME, "hidden_size": 32}, "hidden_size 16 32"),
        ({**RESUME, "num_hidden_layers": 2}, "num_hidden_layers 1 2"),
        ({**RESUME, "tie": "none"}, "tie embeddings none"),
        ({**RESUME, "generator_type": "albert"}, "model_type"),
        ({**RESUME, "objective": "electra_15"}, "--objective electra electra_15"),
        ({**RESUME, "train_file": "other.txt"}, "corpus"),
        ({**RESUME, "tokenizer_path": "other_tok"}, "tokenizer"),
        ({**RESUME, "gradient_accumulation_steps": 2}, "4 8"),
        ({**RESUME, "plan": True}, "--plan --resume_from_checkpoint"),
        (
            RESUME,
            "done checkpoint-4 checkpoint-2",
            lambda world: [remove(f"{LAST}/optimizer.pt")(world), cut(f"{FIRST}/optimizer.pt")(world)],
        ),
        ({"auto_resume": True, "experiment_name": "tok", "output_dir": "."}, "tok config.yaml --experiment_name"),
        ({"train_file": None, "resume_from_checkpoint": LAST}, "config.yaml --config", remove(f"{DONE}/config.yaml")),
        ({"train_file": None, "resume_from_checkpoint": LAST}, "config.yaml --config", cut(f"{DONE}/config.yaml")),
        ({"init_discriminator": "./none"}, "./none"),
        ({"init_discriminator": ""}, "--init_discriminator"),
        ({"init_discriminator": "corpus.txt"}, "corpus.txt"),
        ({"init_discriminator": "no_files"}, "no_files"),
        ({"init_discriminator": LAST}, "--init_discriminator discriminator/"),
        ({"init_discriminator": "encoder"}, "--embedding_size 16 8"),
    ),
    *(
        Case(PRETRAIN, {**RESUME, "resume_from_checkpoint": LAST}, f"checkpoint-4 {file}", change(f"{LAST}/{file}"))
        for file, change in (
            ("model.safetensors", cut),
            ("optimizer.pt", remove),
            ("scheduler.pt", lambda name: write(name, "")),
            ("rng_state.pth", lambda name: write(name, "x")),
            ("trainer_state.json", lambda name: write(name, "{}")),
            ("config.json", remove),
            ("tokenizer.json", cut),
            ("manifest.json", lambda name: write(name, "[]")),
            ("manifest.json", remove),
        )
    ),
    *values(GLUE, "pretrain_path", {"./none": "./none", "corpus.txt": "corpus.txt", "no_files": "no_files"}),
    *(
        Case(GLUE, {"pretrain_path": path}, f"{folder} model.safetensors", flip(f"{DONE}/{folder}/model.safetensors"))
        for path, folder in ((DONE, "discriminator"), (LAST, "checkpoint-4"))
    ),
    *cases(
        GLUE,
        ({"pretrain_path": None}, "--pretrain_path --from_scratch"),
        ({"pretrain_path": "encoder", "from_scratch": "small"}, "from_scratch"),
        ({"from_scratch": "small", "pretrain_path": None}, "small tokenizer"),
        ({}, "encoder weights", cut("encoder/model.safetensors")),
        ({}, "encoder model.safetensors", remove("encoder/model.safetensors")),
        ({}, "config.json", cut("encoder/config.json")),
        ({}, "JSON", write("encoder/config.json", "[1]")),
        ({}, "tokenizer encoder --tokenizer_path", remove("encoder/tokenizer.json", "encoder/tokenizer_config.json")),
    ),
    *(
        Case(GLUE, {}, named, edit_json("encoder/config.json", **changed))
        for named, changed in (
            ("gpt9", {"model_type": "gpt9"}),
            ("gpt2", {"model_type": "gpt2"}),
            ("encoder", {"hidden_size": 32}),
            ("encoder", {"num_hidden_layers": 3}),
            ("encoder", {"hidden_size": "wide"}),
            ("encoder", {"num_hidden_layers": -1}),
            ("encoder", {"hidden_act": "nonsense"}),
        )
    ),
]

TASKS = [
    *values(
        GLUE,
        "glue_dir",
        {
            "./none": "--glue_dir ./none",
            "corpus.txt": "--glue_dir corpus.txt",
            "no_tasks": "--glue_dir no_tasks",
            "": "--glue_dir",
        },
    ),
    *cases(
        GLUE,
        ({"tasks": "mnli"}, "MNLI"),
        ({}, "train.tsv", write(COLA, "")),
        ({}, "train.tsv line 1 UTF-8", write(COLA, b"gj04\t1\t\tGr\xf6\xdfe\n")),
        ({}, "train.tsv line 1 yes", write(COLA, "gj04\tyes\t\tbad\n")),
        ({}, "train.tsv", write(COLA, "one\ntwo\nthree\n")),
        ({}, "CoLA", remove(COLA)),
        ({"tasks": "rte"}, "dev.tsv", write(RTE, "index\tsentence1\tsentence2\tlabel\n")),
        ({"tasks": "rte"}, "dev.tsv sentence2", edit(RTE, "sentence2", "second")),
        ({"tasks": "stsb"}, "9.0", edit(STSB, "2.5", "9.0")),
        ({"tasks": "stsb"}, "nan", edit(STSB, "2.5", "nan")),
        (
            {"experiment_name": "taken"},
            "taken --experiment_name",
            lambda w: (w / "output/taken/a").mkdir(parents=True),
        ),
        ({"experiment_name": "old"}, "results.jsonl"),
    ),
]


@pytest.mark.parametrize(
    "case", [*OPTIONS, *YAML, *CORPORA, *TOKENIZERS, *CHECKPOINTS, *TASKS], ids=lambda case: case.name
)
def test_what_is_wrong_is_named_in_one_line(case: Case, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if case.change is not None:
        case.change(world)
    before = contents(world)
    line = refused(case.script, case.argv(), capsys)
    assert all(word in line for word in case.named.split(" ")), line
    after = contents(world)
    assert after == before, sorted({*after} ^ {*before})
    assert not list(world.rglob("*unfinished*"))


def contents(folder: Path) -> dict[Path, bytes]:
    """All files, without locks and without the cache, whose parts are whole or not there."""
    return {
        path: path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if "cache" not in path.relative_to(folder).parts and path.suffix != ".lock"
    }
