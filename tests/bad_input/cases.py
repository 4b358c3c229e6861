"""The table: what a user gets wrong, and what the one line about it must say, what was got and what to do."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Change = Callable[[Path], Any]
PRETRAIN, GLUE, TOKENIZER = "run_pretraining", "run_glue", "train_tokenizer"


class Case(NamedTuple):
    """A wrong command.

    Args:
        script: which of the three.
        options: on top of a command that works; None takes one of its options away.
        says: regular expression of what the line must hold.
        change: what is done to the world before.
        words: further words of the command line.
    """

    script: str
    options: dict[str, Any]
    says: str
    change: Change | None = None
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        said = " ".join([*(f"{k}={v}" for k, v in self.options.items()), *self.words])[:60]
        return f"{self.script.removeprefix('run_')}: {said}{' changed' if self.change else ''}"


def write(name: str, content: str | bytes) -> Change:
    return lambda world: (world / name).write_bytes(content.encode() if isinstance(content, str) else content)


def edit(name: str, old: str, new: str) -> Change:
    return lambda world: (world / name).write_text((world / name).read_text().replace(old, new))


def edit_json(name: str, **values: Any) -> Change:
    def change(world: Path) -> None:
        (world / name).write_text(json.dumps({**json.loads((world / name).read_text()), **values}))

    return change


def cut(name: str) -> Change:
    return lambda world: os.truncate(world / name, (world / name).stat().st_size // 2)


def remove(name: str) -> Change:
    return lambda world: shutil.rmtree(world / name) if (world / name).is_dir() else (world / name).unlink()


def each(*changes: Change) -> Change:
    def change(world: Path) -> None:
        for one in changes:
            one(world)

    return change


DONE, LAST, FIRST = "output/done", "output/done/checkpoint-4", "output/done/checkpoint-2"
RESUME = {"experiment_name": "done", "resume_from_checkpoint": "true", "max_steps": 6}
COLA = "glue/CoLA/train.tsv"


OPTIONS = [
    Case(PRETRAIN, {"max_stepz": 4}, r"unknown option --max_stepz; did you mean --max_steps\?"),
    Case(PRETRAIN, {"zzzz": 1}, r"unknown option --zzzz; --help lists"),
    Case(PRETRAIN, {"lr": 1e-3}, r"unknown option --lr; did you mean --learning_rate\?"),
    Case(
        PRETRAIN, {}, r"'corpus\.md' belongs to no option; options start with --", None, ("--seed", "1", "corpus.md")
    ),
    Case(PRETRAIN, {"max_steps": "many"}, r"max_steps.*'many'"),
    Case(PRETRAIN, {"max_steps": "1.5"}, r"max_steps.*'1.5'"),
    Case(PRETRAIN, {"max_steps": 0}, r"--max_steps 0 .*must be positive, or -1"),
    Case(PRETRAIN, {"max_steps": -2}, r"--max_steps -2 .*must be positive, or -1"),
    Case(PRETRAIN, {"learning_rate": "nan"}, r"--learning_rate nan .*must be a finite number"),
    Case(PRETRAIN, {"learning_rate": -1}, r"--learning_rate -1.0 .*must be 0 or more"),
    Case(PRETRAIN, {"seed": 2**32}, r"--seed 4294967296 .*must be in \[0, 2\^32\)"),
    Case(PRETRAIN, {"seed": -1}, r"--seed -1 .*must be in"),
    Case(PRETRAIN, {"per_device_train_batch_size": 0}, r"--per_device_train_batch_size 0 .*must be positive"),
    Case(PRETRAIN, {"gradient_accumulation_steps": 0}, r"--gradient_accumulation_steps 0 .*must be positive"),
    Case(PRETRAIN, {"gradient_accumulation_steps": 10**19}, r"Trainer cannot be set up with these options: "),
    Case(PRETRAIN, {"dataloader_num_workers": -1}, r"--dataloader_num_workers -1 .*must be 0 or more"),
    Case(PRETRAIN, {"mlm_probability": 1}, r"--mlm_probability 1.0 .*must be in \(0, 1\)"),
    Case(PRETRAIN, {"mlm_replacement_probability": 0.9, "mlm_random_probability": 0.2}, r"more than all.*at most 1"),
    Case(PRETRAIN, {"temperature": 0}, r"--temperature 0.0 .*must be above 0"),
    Case(PRETRAIN, {"objective": "gpt"}, r"objective.*'gpt'.*choose from.*electra"),
    Case(PRETRAIN, {"objective": "mlm", "temperature": 2, "generator_size": None}, r"--temperature .*leave it out"),
    Case(PRETRAIN, {"objective": "two_stage"}, r"both must be of one size.*say --generator_size 1"),
    Case(PRETRAIN, {"objective": "two_stage", "tie": "all"}, r"--tie all does not work.*leave it out"),
    Case(PRETRAIN, {"generator_steps": 3}, r"--generator_steps .*no stages; leave it out"),
    Case(PRETRAIN, {"model_size": "huge"}, r"model_size.*'huge'.*choose from.*small"),
    Case(PRETRAIN, {"hidden_size": 33}, r"33.*not a multiple"),
    Case(PRETRAIN, {"hidden_size": 0}, r"--hidden_size 0 .*must be positive"),
    Case(PRETRAIN, {"generator_size": 0.01}, r"too small for one head"),
    Case(PRETRAIN, {"max_length": 64}, r"--max_length 64 is longer than .*32; shorten"),
    Case(PRETRAIN, {"max_length": 4}, r"--max_length 4 .*must be at least 8"),
    Case(PRETRAIN, {"vocab_size": 3}, r"--vocab_size 3 .*must be in \[6"),
    Case(PRETRAIN, {"vocab_size": 8, "tokenizer_path": None}, r"vocab_size=8"),
    Case(PRETRAIN, {"validation_fraction": 1}, r"--validation_fraction 1.0 .*must be in \[0, 1\)"),
    Case(PRETRAIN, {"segment_policy": "random"}, r"segment_policy.*'random'.*choose from.*windows"),
    Case(PRETRAIN, {"bf16": "perhaps"}, r"bf16.*perhaps"),
    Case(PRETRAIN, {"optim": "nonsense"}, r"nonsense"),
    Case(PRETRAIN, {"lr_scheduler_type": "nonsense"}, r"nonsense"),
    Case(PRETRAIN, {"report_to": "nonsense"}, r"nonsense"),
    Case(PRETRAIN, {"deepspeed": "no.json"}, r"deepspeed"),
    Case(PRETRAIN, {"fsdp": "nonsense"}, r"fsdp"),
    Case(PRETRAIN, {"fsdp": "full_shard", "use_cpu": True}, r"--fsdp needs GPUs"),
    Case(PRETRAIN, {"save_strategy": "sometimes"}, r"sometimes"),
    Case(PRETRAIN, {"save_steps": -1}, r"--save_steps -1.0 .*must be 0 or more"),
    Case(PRETRAIN, {"logging_steps": 0}, r"logging_steps"),
    Case(PRETRAIN, {"eval_steps": 0}, r"--eval_steps 0.0 .*must be above 0"),
    Case(PRETRAIN, {"max_hours": 0}, r"--max_hours 0.0 .*must be above 0"),
    Case(PRETRAIN, {"checkpoint_fractions": 2}, r"--checkpoint_fractions 2.0 .*must be in \(0, 1\]"),
    Case(PRETRAIN, {"generator_gate": "loss"}, r"--generator_gate loss .*expected METRIC THRESHOLD"),
    Case(PRETRAIN, {"dataloader_prefetch_factor": 2}, r"dataloader_prefetch_factor"),
    Case(
        PRETRAIN,
        {"dataloader_prefetch_factor": 0, "dataloader_num_workers": 1},
        r"--dataloader_prefetch_factor 0 .*must be positive",
    ),
    Case(PRETRAIN, {"dataloader_persistent_workers": True}, r"needs --dataloader_num_workers above 0"),
    Case(PRETRAIN, {"dataloader_multiprocessing_context": "fork"}, r"needs --dataloader_num_workers above 0"),
    Case(
        PRETRAIN,
        {"dataloader_multiprocessing_context": "nope", "dataloader_num_workers": 1},
        r"--dataloader_multiprocessing_context.*'nope'.*choose from",
    ),
    Case(PRETRAIN, {"push_to_hub": True}, r"--push_to_hub .*HF_HUB_OFFLINE|--push_to_hub .*token"),
    Case(PRETRAIN, {"report_to": "clearml"}, r"--report_to clearml does not work: clearml is not installed"),
    Case(PRETRAIN, {"debug": "tpu_metrics_debug"}, r"--debug tpu_metrics_debug is for TPUs"),
    Case(PRETRAIN, {"activation_checkpointing_kwargs": "[1]"}, r"--activation_checkpointing_kwargs .*JSON object"),
    Case(
        PRETRAIN,
        {"accelerator_config": '{"gradient_accumulation_kwargs": {"nope": 4}}'},
        r"Trainer cannot be set up with these options: .*nope",
    ),
    Case(PRETRAIN, {"neftune_noise_alpha": 5}, r"--neftune_noise_alpha 5.0 .*must be left out"),
    Case(PRETRAIN, {"use_liger_kernel": True}, r"--use_liger_kernel True .*must be False"),
    Case(PRETRAIN, {"adam_epsilon": 0}, r"--adam_epsilon 0.0 .*must be above 0"),
    Case(GLUE, {"adam_epsilon": 0}, r"--adam_epsilon 0.0 .*must be above 0"),
    *(
        Case(PRETRAIN, {"metric_for_best_model": name, **where}, says)
        for name, where, says in (
            ("nope", {"save_strategy": "best"}, r"--metric_for_best_model nope: .*electra has no.*discriminator_auc"),
            ("eval_mlm_loss", {"load_best_model_at_end": True, "eval_strategy": "steps", "save_steps": 6}, r"no such"),
        )
    ),
    *(
        Case(PRETRAIN, {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": kwargs}, says)
        for kwargs, says in (
            ('{"nope": 1}', r"--gradient_checkpointing_kwargs .*nope.*it takes use_reentrant"),
            (
                '{"use_reentrant": false, "determinism_check": "nope"}',
                r"--gradient_checkpointing_kwargs .*nope.*it takes use_reentrant",
            ),
            ('{"context_fn": "nope"}', r"--gradient_checkpointing_kwargs .*it takes use_reentrant"),
        )
    ),
    *(
        Case(PRETRAIN, {"lr_scheduler_type": name, "lr_scheduler_kwargs": kwargs}, r"--lr_scheduler_type and its")
        for name, kwargs in (
            ("cosine", '{"num_cycles": "x"}'),
            ("cosine_with_restarts", '{"num_cycles": "x"}'),
            ("polynomial", '{"power": "x"}'),
            ("polynomial", '{"power": -1}'),
            ("inverse_sqrt", '{"timescale": 0}'),
        )
    ),
    Case(
        PRETRAIN,
        {
            "lr_scheduler_type": "reduce_lr_on_plateau",
            "lr_scheduler_kwargs": '{"patience": "x"}',
            "eval_strategy": "steps",
        },
        r"--lr_scheduler_type and its",
    ),
    Case(PRETRAIN, {"torch_compile_mode": "nonsense"}, r"nonsense.*default"),
    Case(PRETRAIN, {"gradient_checkpointing_kwargs": "[1]"}, r"--gradient_checkpointing_kwargs .*JSON object"),
    Case(PRETRAIN, {"optim_args": "nonsense"}, r"optim"),
    Case(PRETRAIN, {"lr_scheduler_kwargs": "{"}, r"--lr_scheduler_kwargs \{ .*must be a JSON object"),
    Case(PRETRAIN, {"neftune_noise_alpha": "x"}, r"neftune_noise_alpha"),
    Case(PRETRAIN, {"experiment_name": "a/b"}, r"--experiment_name 'a/b' must be a plain folder name"),
    Case(PRETRAIN, {"experiment_name": ""}, r"--experiment_name '' must be a plain folder name"),
    Case(PRETRAIN, {"experiment_name": "n" * 300}, r"cannot write to --output_dir.*name"),
    Case(PRETRAIN, {"output_dir": "corpus.txt/below"}, r"cannot write to --output_dir corpus.txt/below.*name another"),
    Case(PRETRAIN, {"cache_dir": "corpus.txt/below"}, r"cannot write .*corpus.txt/below.*name another --cache_dir"),
    Case(PRETRAIN, {"cache_dir": ""}, r"--cache_dir '' .*must be a folder"),
    Case(PRETRAIN, {"auto_resume": True, "resume_from_checkpoint": "true"}, r"leave --resume_from_checkpoint out"),
    Case(GLUE, {"task": "cola"}, r"unknown option --task; did you mean --tasks\?"),
    Case(GLUE, {"tasks": "colla"}, r"colla.*cola"),
    Case(GLUE, {"tasks": ","}, r"--tasks names no task; choose from"),
    Case(GLUE, {"num_seeds": 0}, r"--num_seeds 0 .*must be positive"),
    Case(GLUE, {"learning_rate": 2}, r"--learning_rate 2.0 .*must be in \(0, 1\]"),
    Case(GLUE, {"num_train_epochs": "inf"}, r"--num_train_epochs inf .*must be a finite number"),
    Case(GLUE, {"max_length": 4}, r"--max_length 4 .*must be at least 8"),
    Case(GLUE, {"max_length": 4096}, r"4096.*32"),
    Case(GLUE, {"head": "big"}, r"head.*'big'.*choose from"),
    Case(GLUE, {"task_overrides": "{"}, r"--task_overrides \{ is not a mapping"),
    Case(GLUE, {"task_overrides": "[1]"}, r"--task_overrides.*must be like"),
    Case(GLUE, {"task_overrides": '{"rte": {"seed": 3}}'}, r"seed is not an option that can differ by task"),
    Case(GLUE, {"task_overrides": '{"rte": {"learning_rate": "x"}}'}, r"--task_overrides of rte.*learning_rate"),
    Case(GLUE, {"task_overrides": '{"xyz": {"learning_rate": 1e-3}}'}, r"xyz"),
    Case(GLUE, {"start_from_mnli": "rte"}, r"--start_from_mnli rte.*add it to --tasks"),
    Case(GLUE, {"experiment_name": ".."}, r"--experiment_name '\.\.' must be a plain folder name"),
    Case(GLUE, {"output_dir": "corpus.txt/below"}, r"cannot write to .*choose another --output_dir"),
    Case(GLUE, {"report_to": "nonsense"}, r"--report_to nonsense does not work"),
    Case(TOKENIZER, {"vocab_sise": 100}, r"unknown option --vocab_sise; did you mean --vocab_size\?"),
    Case(TOKENIZER, {"vocab_size": 10}, r"vocab_size=10"),
    Case(TOKENIZER, {"vocab_size": "x"}, r"vocab_size.*'x'"),
    Case(TOKENIZER, {"tokenizer_algorithm": "bpe"}, r"tokenizer_algorithm.*'bpe'.*choose from"),
    Case(TOKENIZER, {"min_frequency": 0}, r"--min_frequency 0 .*must be at least 1"),
    Case(TOKENIZER, {"min_frequency": 10**6}, r"min_frequency"),
    Case(TOKENIZER, {"max_documents": 0}, r"--max_documents 0 .*must be positive"),
    Case(TOKENIZER, {"cased": "maybe"}, r"--cased: expected true or false, got maybe"),
    Case(TOKENIZER, {"output_dir": "encoder"}, r"encoder holds something else than a tokenizer; name a new folder"),
    Case(TOKENIZER, {"output_dir": "corpus.txt"}, r"cannot write the tokenizer to corpus.txt.*name another folder"),
    Case(TOKENIZER, {"output_dir": "corpus.txt/a"}, r"cannot write the tokenizer to .*name another folder"),
    Case(TOKENIZER, {"output_dir": ""}, r"output_dir"),
    Case(TOKENIZER, {"train_file": None}, r"--train_file .*--dataset_name"),
]

YAML = [
    *(
        Case(PRETRAIN, {"config": f"configs/{name}.yaml", "learning_rate": None, "experiment_name": None}, says)
        for name, says in {
            "missing": r"cannot read --config configs/missing.yaml: No such file",
            "folder": r"cannot read --config configs/folder.yaml: Is a directory",
            "tabs": r"configs/tabs.yaml is not valid YAML.*line 1",
            "open": r"configs/open.yaml is not valid YAML",
            "list": r"configs/list.yaml must hold 'option: value' lines, but holds a list",
            "text": r"configs/text.yaml must hold 'option: value' lines, but holds a str",
            "twice": r"configs/twice.yaml is not valid YAML",
            "typo": r"unknown option --max_step in configs/typo.yaml; did you mean --max_steps\?",
            "number": r"unknown option --3 in configs/number.yaml",
            "word": r"max_steps.*'many'",
            "nested": r"max_steps.*a",
            "several": r"max_steps|belongs to no option",
            "empty": r"report_to in configs/empty.yaml is empty; name at least one",
            "config": r"unknown option --config in configs/config.yaml",
            "latin": r"configs/latin.yaml is not valid YAML",
            "nan": r"--learning_rate nan .*finite",
            "date": r"max_steps.*2020-01-01",
            "control": r"configs/control.yaml is not valid YAML",
            "nul": r"experiment_name|cannot write",
            "python": r"configs/python.yaml is not valid YAML.*python/object",
            "anchor": r"configs/anchor.yaml is not valid YAML.*missing",
        }.items()
    ),
    Case(PRETRAIN, {"config": "configs/no_corpus.yaml", "train_file": None}, r"--train_file .*--dataset_name"),
    Case(PRETRAIN, {"config": "corpus.txt"}, r"corpus.txt"),
    Case(PRETRAIN, {"config": "binary.txt"}, r"binary.txt is not valid YAML"),
    Case(GLUE, {"config": "configs/tasks.yaml", "tasks": None}, r"'?3'?.*cola"),
    Case(GLUE, {"config": "configs/overrides.yaml"}, r"--task_overrides.*must be like"),
    Case(GLUE, {"config": "configs/python.yaml"}, r"configs/python.yaml is not valid YAML.*python/object"),
    Case(TOKENIZER, {"config": "configs/python.yaml"}, r"configs/python.yaml is not valid YAML.*python/object"),
    Case(TOKENIZER, {"config": "configs/typo.yaml"}, r"unknown option --max_step in configs/typo.yaml"),
]

_CORPORA = {
    "missing.txt": r"train_file missing.txt: no such file or folder",
    "missing*.txt": r"train_file missing\*.txt: no such file or folder",
    "": r"train_file",
    "zero.txt": r"no text in zero.txt; name a file that holds some",
    "blank.txt": r"no text in blank.txt; name a file that holds some",
    "binary.txt": r"binary.txt",
    "latin.txt": r"latin.txt.*UTF-8",
    "utf16.txt": r"utf16.txt.*UTF-8",
    "body.jsonl": r"body.jsonl.*no column 'text', it has: body; .*--text_column",
    "cut.jsonl": r"cut.jsonl, line 2: expected one JSON object per line",
    "list.jsonl": r"list.jsonl, line 1: expected one JSON object per line, got list",
    "number.jsonl": r"number.jsonl, line 1: 'text' holds int, expected text",
    "surrogate.jsonl": r"surrogate.jsonl, line 1: 'text' has half of a surrogate pair",
    "deep.jsonl": r"deep.jsonl, line 1: expected one JSON object",
    "body.csv": r"body.csv has no column 'text', it has: id, body; .*--text_column",
    "ragged.csv": r"ragged.csv, line 2: 3 fields where the header has 2",
    "open.csv": r"open.csv, line 2: .*double quotes",
    "paper.pdf": r"paper.pdf.*not supported",
    "fake.txt.gz": r"fake.txt.gz.*is broken",
    "cut.txt.gz": r"cut.txt.gz.*is broken",
    "fake.zip": r"fake.zip.*is broken",
    "fake.parquet": r"fake.parquet.*is broken",
    "body.parquet": r"body.parquet.*no column 'text', it has: body, n",
    "no_files": r"train_file no_files: no file below this folder can be read; expected",
    "saved": r"saved is a folder written by datasets.save_to_disk; name it with --dataset_name",
}

CORPORA = [
    *(Case(PRETRAIN, {"train_file": name}, says) for name, says in _CORPORA.items()),
    *(Case(TOKENIZER, {"train_file": name}, says) for name, says in _CORPORA.items() if name != ""),
    Case(PRETRAIN, {"train_file": "short.txt"}, r"shorter than one segment"),
    Case(PRETRAIN, {"train_file": "one.txt"}, r"only one distinct document.*--validation_fraction 0"),
    Case(PRETRAIN, {"train_file": "chinese.txt"}, r"every token of chinese.txt is unknown.*--tokenizer_path"),
    Case(PRETRAIN, {"validation_file": "missing.txt"}, r"train_file missing.txt|validation_file missing.txt"),
    Case(PRETRAIN, {"validation_file": "corpus.txt"}, r"held out|validation_file|corpus"),
    Case(PRETRAIN, {"dataset_name": "saved", "train_file": None}, r"saved.*--train_file|saved"),
    Case(PRETRAIN, {"dataset_name": "text", "train_file": None}, r"'text' is not the name of a data set"),
    Case(PRETRAIN, {"dataset_name": "no-such/set", "train_file": None}, r"no-such/set.*could not be loaded"),
    Case(PRETRAIN, {"dataset_config_name": "en"}, r"dataset_config_name has 1 values for 0 dataset names"),
    Case(PRETRAIN, {"dataset_sampling": 1.5}, r"dataset_sampling 1.5: expected a fraction above 0 and up to 1"),
    Case(PRETRAIN, {"text_column": "", "train_file": "body.jsonl"}, r"no column ''"),
    Case(PRETRAIN, {"document_separator": "page"}, r"document_separator.*'page'.*choose from"),
]

TOKENIZERS = [
    *(
        Case(PRETRAIN, {"tokenizer_path": name}, says)
        for name, says in {
            "./none": r"tokenizer \./none: no such file or folder",
            "no/such-tokenizer": r"tokenizer no/such-tokenizer: transformers cannot load it",
            "": r"--tokenizer_path '' .*must be a folder, a file or a Hub id",
            "no_tok": r"tokenizer no_tok: the folder holds no tokenizer \(expected tokenizer.json or vocab.txt",
            "only_config": r"tokenizer only_config: the folder holds no vocabulary",
            "cut_tok": r"tokenizer cut_tok: transformers cannot load it .*expected a folder with a tokenizer",
            "garbage_tok": r"tokenizer garbage_tok: transformers cannot load it",
            "null_tok": r"tokenizer null_tok: transformers cannot load it",
            "list_tok": r"tokenizer list_tok: transformers cannot load it",
            "bad_config_tok": r"tokenizer bad_config_tok: transformers cannot load it",
            "list_config_tok": r"tokenizer list_config_tok: transformers cannot load it",
            "remote_tok": r"tokenizer remote_tok: transformers cannot load it",
            "maskless": r"not a BERT vocabulary, it has no line \[MASK\]",
            "specials": r"has no tokens but its 5 special ones",
            "latin_vocab": r"not a UTF-8 vocabulary file",
            "corpus.txt": r"tokenizer corpus.txt: not a BERT vocabulary",
            "body.jsonl": r"tokenizer body.jsonl: not a tokenizers JSON file, or damaged",
        }.items()
    ),
    Case(GLUE, {"tokenizer_path": "garbage_tok"}, r"tokenizer garbage_tok: transformers cannot load it"),
    Case(GLUE, {"tokenizer_path": "maskless"}, r"not a BERT vocabulary"),
]

CHECKPOINTS = [
    Case(PRETRAIN, {"resume_from_checkpoint": "true"}, r"nothing to resume: there is no folder .*name a run"),
    Case(PRETRAIN, {**RESUME, "resume_from_checkpoint": f"{DONE}/checkpoint-3"}, r"nothing to resume.*checkpoint-3"),
    Case(PRETRAIN, {**RESUME, "resume_from_checkpoint": "corpus.txt"}, r"nothing to resume.*corpus.txt"),
    Case(PRETRAIN, {**RESUME, "resume_from_checkpoint": "no_files"}, r"no_files holds no checkpoint-N; leave"),
    Case(PRETRAIN, {**RESUME, "max_steps": 3}, r"checkpoint-4 is at step 4, beyond --max_steps 3; ask for more"),
    Case(PRETRAIN, {**RESUME, "hidden_size": 32}, r"hidden_size is 16 there and 32 here"),
    Case(PRETRAIN, {**RESUME, "tie": "none"}, r"tie is embeddings there and none here"),
    Case(PRETRAIN, {**RESUME, "objective": "electra_15"}, r"trained with --objective electra, not electra_15; leave"),
    Case(PRETRAIN, {**RESUME, "train_file": "other.txt"}, r"was trained on another corpus, .*name the same one"),
    Case(PRETRAIN, {**RESUME, "gradient_accumulation_steps": 2}, r"with 4 segments a step, not 8"),
    Case(PRETRAIN, {**RESUME, "plan": True}, r"--plan is for a run that has not begun; leave"),
    *(
        Case(PRETRAIN, {**RESUME, "resume_from_checkpoint": LAST}, rf"checkpoint-4 .*{says}.*; name an older", change)
        for says, change in (
            ("model.safetensors has", cut(f"{LAST}/model.safetensors")),
            ("no optimizer.pt", remove(f"{LAST}/optimizer.pt")),
            ("scheduler.pt has 0 of", write(f"{LAST}/scheduler.pt", "")),
            ("rng_state.pth", write(f"{LAST}/rng_state.pth", "x")),
            ("trainer_state.json", write(f"{LAST}/trainer_state.json", "{}")),
            ("config.json", remove(f"{LAST}/config.json")),
            ("tokenizer.json", cut(f"{LAST}/tokenizer.json")),
            ("manifest.json", write(f"{LAST}/manifest.json", "[]")),
            ("has no manifest.json", remove(f"{LAST}/manifest.json")),
        )
    ),
    Case(
        PRETRAIN,
        RESUME,
        r"no checkpoint of .*done is whole: checkpoint-4 has no .*; checkpoint-2 is damaged: .*start again",
        each(remove(f"{LAST}/optimizer.pt"), cut(f"{FIRST}/optimizer.pt")),
    ),
    Case(
        PRETRAIN,
        {"auto_resume": True, "experiment_name": "tok", "output_dir": "."},
        r"tok holds files but no config.yaml.*choose another --experiment_name",
    ),
    Case(
        PRETRAIN,
        {"train_file": None, "resume_from_checkpoint": LAST},
        r"holds no config.yaml|lies beside no config.yaml.*--config",
        remove(f"{DONE}/config.yaml"),
    ),
    Case(PRETRAIN, {"train_file": None, "resume_from_checkpoint": LAST}, r"config.yaml", cut(f"{DONE}/config.yaml")),
    Case(PRETRAIN, {"init_discriminator": "./none"}, r"there is no folder './none'; name a run"),
    Case(PRETRAIN, {"init_discriminator": "corpus.txt"}, r"corpus.txt is a file; name the folder"),
    Case(PRETRAIN, {"init_discriminator": "no_files"}, r"no_files holds no model"),
    Case(PRETRAIN, {"init_discriminator": LAST}, r"checkpoint of a run; name its exported discriminator"),
    Case(PRETRAIN, {"init_discriminator": "encoder"}, r"--embedding_size 16: .*its own, 8; leave it"),
    Case(GLUE, {"pretrain_path": None}, r"--pretrain_path|--from_scratch"),
    Case(GLUE, {"pretrain_path": "encoder", "from_scratch": "small"}, r"from_scratch"),
    Case(GLUE, {"pretrain_path": "./none"}, r"there is no folder './none'; name a run"),
    Case(GLUE, {"pretrain_path": "corpus.txt"}, r"corpus.txt is a file; name the folder"),
    Case(GLUE, {"pretrain_path": "no_files"}, r"no_files holds no model.*name a run"),
    Case(GLUE, {}, r"weights cannot be loaded.*damaged or incomplete", cut("encoder/model.safetensors")),
    Case(GLUE, {}, r"holds no weights, expected model.safetensors", remove("encoder/model.safetensors")),
    Case(GLUE, {}, r"config.json is no readable JSON", cut("encoder/config.json")),
    Case(GLUE, {}, r"no configuration of a model, expected a JSON object", write("encoder/config.json", "[1]")),
    Case(GLUE, {}, r"model_type 'gpt9', which", edit_json("encoder/config.json", model_type="gpt9")),
    Case(GLUE, {}, r"type gpt2.*not an encoder", edit_json("encoder/config.json", model_type="gpt2")),
    Case(GLUE, {}, r"encoder.*another size", edit_json("encoder/config.json", hidden_size=32)),
    Case(GLUE, {}, r"encoder lacks", edit_json("encoder/config.json", num_hidden_layers=3)),
    Case(GLUE, {}, r"encoder", edit_json("encoder/config.json", hidden_size="wide")),
    Case(GLUE, {}, r"encoder", edit_json("encoder/config.json", num_hidden_layers=-1)),
    Case(GLUE, {}, r"encoder", edit_json("encoder/config.json", hidden_act="nonsense")),
    Case(GLUE, {}, r"no tokenizer lies with the model in encoder; name one with --tokenizer_path",
         each(*(remove(f"encoder/{name}") for name in ("tokenizer.json", "tokenizer_config.json")))),
    Case(GLUE, {"from_scratch": "small", "pretrain_path": None}, r"recipe 'small' has no tokenizer; name one"),
]  # fmt: skip

TASKS = [
    Case(GLUE, {"glue_dir": "./none"}, r"--glue_dir \./none: No such file or directory; name a folder"),
    Case(GLUE, {"glue_dir": "corpus.txt"}, r"--glue_dir corpus.txt: Not a directory; name a folder"),
    Case(GLUE, {"glue_dir": "no_tasks"}, r"--glue_dir no_tasks has no folder of a task: expected .*found unrelated"),
    Case(GLUE, {"glue_dir": ""}, r"--glue_dir is empty; name a folder"),
    Case(GLUE, {"tasks": "mnli"}, r"MNLI|mnli"),
    Case(GLUE, {}, r"train.tsv is empty; download it again", write(COLA, "")),
    Case(GLUE, {}, r"train.tsv line 1 is not UTF-8", write(COLA, b"gj04\t1\t\tGr\xf6\xdfe\n")),
    Case(GLUE, {}, r"train.tsv line 1: unknown label 'yes', expected one of: 0 1", write(COLA, "gj04\tyes\t\tbad\n")),
    Case(GLUE, {}, r"of .* rows are broken .*download it again", write(COLA, "one\ntwo\nthree\n")),
    Case(GLUE, {}, r"CoLA|cola", remove(COLA)),
    Case(GLUE, {}, r"train.tsv", each(remove(COLA), lambda world: (world / COLA).mkdir())),
    Case(GLUE, {"tasks": "rte"}, r"a header without rows; download it again",
         write("glue/RTE/dev.tsv", "index\tsentence1\tsentence2\tlabel\n")),
    Case(GLUE, {"tasks": "rte"}, r"no column sentence2; expected a header with",
         edit("glue/RTE/dev.tsv", "sentence2", "second")),
    Case(GLUE, {"tasks": "stsb"}, r"'9.0' is no score, expected a number from 0 to 5",
         edit("glue/STS-B/dev.tsv", "2.5", "9.0")),
    Case(GLUE, {"tasks": "stsb"}, r"'nan' is no score", edit("glue/STS-B/dev.tsv", "2.5", "nan")),
    Case(GLUE, {"experiment_name": "taken"}, r"taken is taken by something else; choose another --experiment_name",
         lambda world: (world / "output" / "taken").mkdir() or (world / "output" / "taken" / "a").touch()),
    Case(GLUE, {"experiment_name": "old"}, r"results.jsonl",
         lambda world: (world / "output" / "old").mkdir() or (world / "output/old/results.jsonl").write_text("[1]\n")),
]  # fmt: skip

CASES = [*OPTIONS, *YAML, *CORPORA, *TOKENIZERS, *CHECKPOINTS, *TASKS]
