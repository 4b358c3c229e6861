"""Kill tiny commands at random moments, start them again each time, and compare with what nobody disturbed.

    python -m tests.chaos                                      the kills shared out: every entry of MATRIX, a cache
    python -m tests.chaos --kills 2 --segment_policy google    to the entries with this policy
    python -m tests.chaos --kills 50 --cache                   to a token cache

Runs: after each kill every checkpoint must be whole; in the end weights, optimizer and schedule must be equal bit for
bit. A cache: no kill and no command beside it may cost a shard; in the end all files of the cache must be equal.
Fine-tuning and predictions: results, predictions, models and answers must be equal, and nothing else may be left.
Tokenizers: a folder is there as a whole or not at all, and in the end its files must be equal.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))  # where a file is started, not a module

from electra.base.checkpoints import MANIFEST_NAME, checkpoints_of, find_damage
from electra.data.command import main as tokenize
from electra.finetuning.predict import main as predict
from electra.pretraining.run import main as pretrain
from electra.tasks.classify.task import main as classify
from electra.tokenizers.command import main as make_tokenizer
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from tests.helpers import contents, exit_codes, fork, wait_for
from tests.pretraining.runs import FAST, WORDS, assert_same_state, flags, write_corpus
from tests.tasks.classify.files import flags as task_flags
from tests.tasks.classify.files import write_texts
from tests.tasks.glue.files import write_encoder

TWO_STAGE = {"objective": "two_stage", "generator_size": 1, "intermediate_size": 64}
MATRIX = (
    {"segment_policy": "windows"},
    {"segment_policy": "document"},
    {"segment_policy": "google"},
    {"segment_policy": "pairs"},
    {"segment_policy": "packed"},
    {"dataloader_num_workers": 2},
    {"gradient_accumulation_steps": 2},
    {"segment_policy": "google", "dataloader_num_workers": 2, "gradient_accumulation_steps": 2},
    {**TWO_STAGE},
    {**TWO_STAGE, "dataloader_num_workers": 1, "gradient_accumulation_steps": 2},
    {"objective": "adversarial"},
)
WHEN = {"cache": 2, "begin": 1, "save": 2, "step": 5}
"""When to kill, and how often: while tokenizer and cache are built, before the first step, in a save, after a step."""


def run_to_its_end(argv, log, main=pretrain):
    """Run a command in a copy of this process; it must succeed."""
    assert exit_codes([fork(main, argv, log=log)]) == [0], log.read_text()


def kill_at_random(argv, folder, source, when):
    """Start a run below `folder` and kill it at a moment of this kind; its cache is taken away first, if asked for."""
    if when == "cache":
        shutil.rmtree(folder / "cache", ignore_errors=True)
    log = folder / "log.txt"
    log.write_text("")
    process = fork(pretrain, argv, log=log)
    try:
        if when == "cache":
            wait_for(lambda: any((folder / "cache").glob("*.lock")), process)
            time.sleep(source.uniform(0, 0.3))
        elif when == "begin":
            wait_for(lambda: "run folder " in log.read_text(), process)
            time.sleep(source.uniform(0, 0.2))
        else:
            steps = source.randint(1, 4 if when == "save" else 10)
            wait_for(lambda: log.read_text().count(": loss ") >= steps, process)
            if when == "save":
                wait_for((folder / "output" / "killed" / "unfinished").is_dir, process)
            time.sleep(source.uniform(0, 0.01 if when == "save" else 0.04))
        assert process.is_alive(), "it had ended before it was killed"
    finally:
        process.kill()
        process.join()


def newest_step(run):
    """The step of the newest checkpoint, 0 if there is none.

    Raises:
        AssertionError: one of them is not whole.
    """
    checkpoints = checkpoints_of(run)
    for checkpoint in checkpoints:
        assert find_damage(checkpoint) is None, f"{checkpoint} {find_damage(checkpoint)}"
    return int(checkpoints[0].name.partition("-")[2]) if checkpoints else 0


def is_kept(path):
    """Return False for locks, and for the hidden file that a killed command leaves of a file it was writing."""
    is_part = path.name.startswith(".") and path.suffix == ".unfinished"
    return not (is_part or path.suffix == ".lock" or ".locks" in path.parts)


def disturb(folder, kills, seed, **options):
    """Run twice below `folder`, undisturbed and killed `kills` times.

    Returns:
        of each kill its kind, see `WHEN`, and the step of the newest checkpoint after it; 0: there was none.
    Raises:
        AssertionError: a checkpoint is not whole, or the two runs do not end alike.
    """
    max_steps = 14 * (kills + 1)
    write_corpus(folder / "corpus.txt", documents=300)
    options = {
        "hidden_size": 16, "num_hidden_layers": 1, "save_steps": 2, "logging_steps": 1, "max_steps": max_steps,
        "save_total_limit": 2, "eval_steps": 10, **options,
    }  # fmt: skip
    source = random.Random(seed)
    argv = flags(folder, experiment_name="killed", auto_resume=True, **options)
    reached = []
    for when in source.choices(list(WHEN), list(WHEN.values()), k=kills):
        kill_at_random(argv, folder, source, when)
        reached.append((when, newest_step(folder / "output" / "killed")))
    run_to_its_end(argv, folder / "log.txt")
    run_to_its_end(flags(folder, experiment_name="whole", **options), folder / "log.txt")
    last = f"checkpoint-{max_steps}"
    assert_same_state(folder / "output" / "whole" / last, folder / "output" / "killed" / last)
    return reached


# ---- a token cache

SHARDS = 3
CACHE_WHEN = {"tokens": 6, "index": 4}
"""What the killed command writes, and how often."""


def file_stamps(shards):
    """Of each file of some folders, by its path, its time and inode, which change if it is written again."""
    files = [path for shard in shards for path in shard.iterdir()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}


def whole_shards(cache):
    """The folders of the shards of a cache that are complete."""
    return [path for path in cache.glob("shard-*-of-?????") if find_damage(path) is None]


def kill_beside(when, commands, cache, source, folder):
    """Kill a command at a random moment of its writing, while one or two others go on.

    Returns:
        whether it was still alive.
    Raises:
        AssertionError: a shard is lost, or a command fails that was not killed.
    """
    (cache / MANIFEST_NAME).unlink(missing_ok=True)  # as if the cache had never been completed
    unfinished = cache / "index.unfinished"
    if when == "tokens":
        shard = f"shard-{source.randrange(SHARDS):05d}-of-{SHARDS:05d}"
        shutil.rmtree(cache / shard, ignore_errors=True)
        unfinished = cache / f"{shard}.unfinished"
    before = file_stamps(whole_shards(cache))
    names = source.choices([*commands], k=source.randint(2, 3))
    first, *others = [fork(*commands[name], log=folder / f"{number}.txt") for number, name in enumerate(names)]
    while first.is_alive() and not unfinished.exists():
        time.sleep(0.0005)
    time.sleep(source.uniform(0, 0.2 if when == "tokens" else 0.02))
    was_alive = first.is_alive()
    first.kill()
    first.join()
    for process, code in zip(others, exit_codes(others), strict=True):
        assert code == 0, process.log.read_text()
    assert before.items() <= file_stamps(whole_shards(cache)).items(), "a shard is lost"
    return was_alive


def disturb_cache(folder, kills, seed):
    """Build a token cache twice below `folder`: undisturbed, and with `kills` kills beside other commands.

    Returns:
        of each kill its kind, see `CACHE_WHEN`, and the number of shards that are whole after it.
    Raises:
        AssertionError: a shard is lost, a command fails that was not killed, or the caches are not equal.
    """
    write_corpus(folder / "corpus.txt", documents=3000)
    log = folder / "log.txt"
    words = [f"--train_file={folder / 'corpus.txt'}", "--vocab_size=120"]
    caches = {name: [*words, f"--cache_dir={folder / name}"] for name in ("killed", "whole")}
    training = flags(folder, cache_dir=folder / "killed", max_steps=1, **FAST)
    commands = {"cache": (tokenize, caches["killed"]), "run": (pretrain, training)}
    source = random.Random(seed)
    reached = []
    with mock.patch("electra.data.shards.SHARD_BYTES", (folder / "corpus.txt").stat().st_size // SHARDS + 1):
        for argv in caches.values():
            run_to_its_end(argv, log, tokenize)
        (cache,) = (folder / "killed").glob("documents-*[!k]")  # not its lock
        while len(reached) < kills:
            (when,) = source.choices(list(CACHE_WHEN), list(CACHE_WHEN.values()))
            if kill_beside(when, commands, cache, source, folder):
                reached.append((when, len(whole_shards(cache))))
        run_to_its_end(caches["killed"], log, tokenize)
    killed, whole = (
        {path.relative_to(root): content for path, content in contents(root).items() if is_kept(path)}
        for root in (cache, folder / "whole" / cache.name)
    )
    different = sorted(str(path) for path in killed.keys() | whole.keys() if killed.get(path) != whole.get(path))
    assert not different, different
    return reached


def disturb_tasks(folder, kills, seed):
    """Fine-tune and answer rows below `folder`, undisturbed and killed `kills` times.

    Returns:
        of each kill what was killed, and the number of results after it.
    Raises:
        AssertionError: results, predictions, models or answers differ, or a killed command left a file.
    """
    write_texts(folder)
    write_encoder(folder / "encoder", train_on_documents([" ".join(WORDS)] * 4, TokenizerArguments(vocab_size=150)))
    source = random.Random(seed)
    log = folder / "log.txt"
    evaluations = {name: folder / "output" / name for name in ("killed", "whole")}
    options = {"pretrain_path": folder / "encoder", "num_seeds": 3, "save_model": True, "bf16": False}
    fine_tune = {
        name: (classify, task_flags(folder, "reviews", "csv", experiment_name=name, **options)) for name in evaluations
    }
    answer = {}
    for name, evaluation in evaluations.items():
        (folder / name).mkdir()
        rows = str(folder / "reviews" / "train.csv")
        answer[name] = predict, [str(evaluation), rows, "--output_file", str(folder / name / "answers.csv")]
    results = evaluations["killed"] / "results.jsonl"

    def count_results():
        return results.read_text().count("\n") if results.is_file() else 0

    reached = []
    answers = -(-kills // 3)
    for when, commands, times in (("fine-tune", fine_tune, kills - answers), ("predict", answer, answers)):
        main, argv = commands["killed"]
        for _ in range(times):
            log.write_text("")
            process = fork(main, argv, log=log)
            if when == "fine-tune":
                least = source.randint(0, options["num_seeds"] - 1)
                wait_for(lambda least=least: count_results() >= least, process)
                time.sleep(source.uniform(0, 1))
            else:
                wait_for(lambda: any((folder / "killed").iterdir()), process)
            process.kill()
            process.join()
            assert process.exitcode in (0, -9), log.read_text()  # 0: nothing was left to do
            reached.append((when, count_results()))
        for name in evaluations:
            run_to_its_end(commands[name][1], log, main)
    killed, whole = (
        {path.relative_to(root): content for path, content in contents(root).items() if is_kept(path)}
        for root in evaluations.values()
    )
    assert killed.keys() == whole.keys(), killed.keys() ^ whole.keys()
    with_names = ("README.md", "cards.json", "config.yaml", "report.md", "report.html")  # the folders' names
    different = [path for path in killed if killed[path] != whole[path] and path.name not in with_names]
    assert not different, different
    answers = [  # a killed command leaves a hidden file
        {path.name: content for path, content in contents(folder / name).items() if path.name[0] != "."}
        for name in evaluations
    ]
    assert answers[0] == answers[1] and [*answers[0]] == ["answers.csv"], [*answers[0]]
    return reached


def disturb_tokenizer(folder, kills, seed):
    """Train a tokenizer below `folder`, undisturbed and killed `kills` times, half of them while it is written.

    Returns:
        of each kill "tokenizer", and whether the command had ended before it.
    Raises:
        AssertionError: a part of a tokenizer is there after a kill, the tokenizers differ, or something else is left.
    """
    log = folder / "log.txt"
    words = [f"--train_file={write_corpus(folder / 'corpus.txt', documents=3000)}", "--vocab_size=200"]
    started = time.monotonic()
    run_to_its_end([*words, f"--output_dir={folder / 'whole'}"], log, make_tokenizer)
    seconds = time.monotonic() - started
    source = random.Random(seed)
    reached = []

    def files_of(name):
        return {path.name: content for path, content in contents(folder / name).items()}

    for kill in range(kills):
        process = fork(make_tokenizer, [*words, f"--output_dir={folder / 'killed'}"], log=log)
        if kill % 2:
            while process.is_alive() and not any(folder.glob("killed*")):
                time.sleep(0.0002)
            time.sleep(source.uniform(0, 0.004))
        else:
            time.sleep(source.uniform(0, seconds))
        process.kill()
        process.join()
        assert process.exitcode in (0, -9), log.read_text()
        if (folder / "killed").exists():
            assert files_of("killed") == files_of("whole")
            shutil.rmtree(folder / "killed")
        reached.append(("tokenizer", process.exitcode == 0))
    run_to_its_end([*words, f"--output_dir={folder / 'killed'}"], log, make_tokenizer)
    assert files_of("killed") == files_of("whole")
    names = {path.name for path in folder.iterdir() if path.suffix != ".lock"}
    assert names == {"corpus.txt", "log.txt", "whole", "killed"}, names
    return reached


def main():
    """Share the kills out to the series that are asked for, and print what each has reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--segment_policy", help="entries of MATRIX with this policy alone")
    parser.add_argument("--cache", action="store_true", help="a token cache alone")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    series = {
        " ".join(f"{name}={value}" for name, value in options.items()): partial(disturb, **options)
        for options in MATRIX
        if args.segment_policy in (None, options.get("segment_policy")) and not args.cache
    }
    if args.segment_policy is None:
        series["cache"] = disturb_cache
        if not args.cache:
            series["fine-tuning and predictions"] = disturb_tasks
            series["tokenizers"] = disturb_tokenizer
    total = Counter()
    for number, (words, disturbed) in enumerate(series.items()):
        kills = args.kills // len(series) + (number < args.kills % len(series))
        if not kills:
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            reached = disturbed(Path(folder), kills, args.seed + number)
        total.update(when for when, _ in reached)
        print(f"{words}: {reached} alike, {time.monotonic() - started:.0f} s", flush=True)
    print(f"killed {total.total()} times ({dict(total)}): all ended bit for bit alike")


if __name__ == "__main__":
    main()
