"""Where a run goes on: each state of a folder, and what each way to start a run makes of it.

A state is made from a copy of one small trained run, with the checkpoints 4, 8 and 12. No start may lose anything: a
refused one leaves the folder as it was, another one removes nothing but `unfinished`, and a new run never begins where
something lies that it would write.
"""

import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from pytest import raises

from electra.base.checkpoints import write_manifest
from electra.core.errors import UserError
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run_folder import find_run, open_run
from tests.helpers import ROOT, parametrize
from tests.pretraining.runs import flags

RELEASED = ROOT / "tests" / "fixtures" / "earlier_release" / "run"
"""A run of the last release, killed after step 8."""
CHECKPOINTS = ("checkpoint-4", "checkpoint-8", "checkpoint-12")
AT_END = (
    *("metrics.json", "trainer_state.json", "samples.json", "report.html", "training_curves.png"),
    *("discriminator", "generator"),
)
HELD_LOCKS = []
"""Locks of another process, until these tests end."""
NOBODY = 65534
"""User id for what root may read, but others may not."""


# ---- states: each function changes a copy of the run


def keep(run, *names):
    """Remove all but these files and folders of the run."""
    for path in run.iterdir():
        if path.name not in names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove(run, *names):
    """Remove these files and folders of the run."""
    for name in names:
        path = run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def replace(path, content):
    """Write a file anew; the copies of a run are links of its files, which stay as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def with_files(*names):
    """A state of these files alone."""

    def make(run):
        keep(run)
        for name in names:
            replace(run / name, "mine")

    return make


def damaged(*steps):
    """A state in which the weights of these checkpoints are cut."""

    def make(run):
        for step in steps:
            replace(run / f"checkpoint-{step}" / "model.safetensors", "cut")

    return make


def without(*names):
    """A state without these files and folders."""
    return lambda run: remove(run, *names)


def only(*names):
    """A state of these files and folders of the run alone."""
    return lambda run: keep(run, *names)


def killed(*names, then=()):
    """A state without results of the end, with files that were being written; `then`: what is gone, too."""

    def make(run):
        remove(run, *[name for name in AT_END if (run / name).exists()], *then)
        for name in names:
            replace(run / name, "half")

    return make


def edit(run, name, content):
    """Write a JSON file of checkpoint 12 anew, and a manifest that agrees."""
    checkpoint = run / NEWEST
    replace(checkpoint / name, json.dumps(content))
    for file in checkpoint.iterdir():  # the manifest syncs its files, for which it opens them
        replace(file, file.read_bytes())
    write_manifest(checkpoint)


def without_step(run):
    edit(run, "trainer_state.json", {"log_history": []})


def of_another_shape(run):
    edit(run, "origin.json", [])


def moved(run):
    shutil.move(run, run.with_name("moved"))


def moved_and_linked(run):
    moved(run)
    run.symlink_to(run.with_name("moved"))


def linked_to_nothing(run):
    shutil.rmtree(run)
    run.symlink_to(run.with_name("nothing"))


def a_file(run):
    shutil.rmtree(run)
    run.write_text("mine")


def a_file_as_checkpoint(run):
    remove(run, "checkpoint-12")
    (run / "checkpoint-12").write_text("mine")


def a_checkpoint_alone(run):
    """The folder is a copy of a checkpoint, without its run."""
    inner = run.with_name("inner")
    shutil.move(run / "checkpoint-12", inner)
    shutil.rmtree(run)
    inner.rename(run)


def a_copy_beside(run):
    for name in ("checkpoint-12.bak", "checkpoint-best", "checkpoint-99-old"):
        shutil.copytree(run / "checkpoint-12", run / name, copy_function=os.link)


def a_linked_checkpoint(run):
    shutil.move(run / "checkpoint-12", run.with_name("elsewhere"))
    (run / "checkpoint-12").symlink_to(run.with_name("elsewhere"))


def released(run):
    shutil.rmtree(run)
    shutil.copytree(RELEASED, run, copy_function=shutil.copy)


def released_and_damaged(run):
    released(run)
    replace(run / "checkpoint-8" / "optimizer.pt", "cut")


def released_and_killed(run):
    released(run)
    keep(run, *BEGUN)
    replace(run / FIRST, "half")


def lock(run):
    """Another process has the run."""
    left_lock(run)
    HELD_LOCKS.append(FileLock(run.parent / ".run.lock"))
    HELD_LOCKS[-1].acquire(timeout=0)


def left_lock(run):
    """A lock file of a process that has ended; it holds nothing."""
    path = run.parent / ".run.lock"
    path.touch()
    path.chmod(0o666)


def read_only(*names):
    """A state of files and folders that this user may read, but not change."""

    def make(run):
        for name in names:
            (run / name).chmod(0o555)

    return make


def unreadable(run):
    """The newest weights belong to somebody else."""
    path = run / "checkpoint-12" / "model.safetensors"
    replace(path, path.read_bytes())
    path.chmod(0)


def both(*changes):
    """A state after several changes."""

    def make(run):
        for change in changes:
            change(run)

    return make


def of_others(name, content):
    """A whole run, in which a file has this content."""
    return lambda run: replace(run / name, content)


def manifest_of(content):
    return of_others(f"{NEWEST}/manifest.json", content)


def another_state(run):
    """As edited by hand: the manifest names another content."""
    replace(run / NEWEST / "trainer_state.json", "{}")


NEWEST = "checkpoint-12"
OLDEST = "checkpoint-4"
BEGUN = ("config.yaml", "tokenizer")
FIRST, DISCARDED, THIRD = (f"unfinished/{name}/a" for name in (OLDEST, f"discarded-{OLDEST}", NEWEST))

# The ways to start a run named `run`, in output/:
#
#     name      --experiment_name run
#     auto      --experiment_name run --auto_resume
#     run       --resume_from_checkpoint output/run
#     newest    --resume_from_checkpoint output/run/checkpoint-12
#     older     --resume_from_checkpoint output/run/checkpoint-8
#     none      ElectraTrainer(...).train() of a program, with output_dir="output/run"
#     true      .train(resume_from_checkpoint=True)
#     path      .train(resume_from_checkpoint="output/run/checkpoint-12")
#     false     .train(resume_from_checkpoint=False)
#
# and what becomes of it:
#
#     new       a new run in output/run
#     -2        a new run in output/run-2
#     12        output/run goes on from checkpoint-12
#     end       output/run has ended, and nothing is left to do
#     no        refused
#
# In each row are the outcomes of these ways, in this order.
WAYS = ("name", "auto", "run", "newest", "older", "none", "true", "path", "false")

# fmt: off
STATES = {
    # nothing is there yet
    "no folder":                      ("new new no  no  no  new no  no  new", shutil.rmtree),
    "an empty folder":                ("new new no  no  no  new no  no  new", only()),
    "a hidden file":                  ("-2  new no  no  no  new no  no  new", with_files(".DS_Store")),
    "a link to nothing":              ("-2  no  no  no  no  no  no  no  no", linked_to_nothing),
    "a lock of a process that ended": ("new new no  no  no  new no  no  new", both(shutil.rmtree, left_lock)),
    # killed
    "killed in its options":          ("-2  new no  no  no  new no  no  new", with_files(".config.yaml.123")),
    "killed after its options":       ("-2  new no  no  no  new no  no  new", only("config.yaml")),
    "killed before a checkpoint":     ("-2  new no  no  no  new no  no  new", only(*BEGUN)),
    "killed in its first checkpoint": ("-2  new no  no  no  new no  no  new", killed(FIRST, then=CHECKPOINTS)),
    "a program killed there":         ("-2  no  no  no  no  new no  no  new", with_files(FIRST)),
    "a program killed with curves":   ("-2  no  no  no  no  new no  no  new", with_files(FIRST, "runs/events")),
    "killed in a later checkpoint":   ("-2  8   8   no  8   8   8   no  no",  killed(THIRD, then=[NEWEST])),
    "killed in a deletion":           ("-2  12  12  12  no  12  12  12  no",  killed(DISCARDED, then=[OLDEST])),
    "its networks alone":             ("-2  no  no  no  no  no  no  no  no",  only(*BEGUN, "discriminator")),
    "its results alone":              ("-2  no  no  no  no  no  no  no  no",  only(*BEGUN, "metrics.json")),
    "killed after the last step":     ("-2  12  12  12  no  12  12  12  no",  killed()),
    "killed in its export":           ("-2  12  12  12  no  12  12  12  no",  killed("unfinished/discriminator/a")),
    "killed in its results":          ("-2  12  12  12  no  12  12  12  no",  without("metrics.json", "report.html")),
    "killed in its report":           ("-2  end 12  12  no  12  12  12  no",  without("report.html")),
    # whole
    "finished":                       ("-2  end 12  12  no  12  12  12  no",  lambda run: None),
    "without checkpoints":            ("-2  end no  no  no  no  no  no  no",  without(*CHECKPOINTS)),
    "without an old checkpoint":      ("-2  end 12  12  no  12  12  12  no",  without("checkpoint-4", "checkpoint-8")),
    "without its network":            ("-2  12  12  12  no  12  12  12  no",  without("discriminator")),
    "without its options":            ("-2  end 12  12  no  12  12  12  no",  without("config.yaml")),
    "only its checkpoints":           ("-2  12  12  12  no  12  12  12  no",  only(*CHECKPOINTS)),
    "copies of checkpoints beside":   ("-2  end 12  12  no  12  12  12  no",  a_copy_beside),
    "a link to a checkpoint":         ("-2  end 12  no  no  12  12  no  no",  a_linked_checkpoint),
    "moved":                          ("new new no  no  no  new no  no  new", moved),
    "moved, with a link":             ("-2  end 12  12  no  12  12  12  no",  moved_and_linked),
    "a checkpoint without its run":   ("-2  no  no  no  no  no  no  no  no",  a_checkpoint_alone),
    "at work":                        ("-2  no  no  no  no  no  no  no  no",  lock),
    "at work, before a checkpoint":   ("-2  no  no  no  no  no  no  no  no",  both(only(*BEGUN), lock)),
    "the run may not be changed":     ("-2  end 12  12  no  12  12  12  no",  read_only(".")),
    "nothing may be changed":         ("no  no  no  no  no  no  no  no  no",  read_only(".", "..")),
    # damaged
    "newest cut":                     ("-2  end 8   no  8   8   8   no  no",  damaged(12)),
    "newest cut, killed":             ("-2  8   8   no  8   8   8   no  no",  both(killed(), damaged(12))),
    "newest empty":                   ("-2  end 8   no  8   8   8   no  no",  lambda run: keep(run / NEWEST)),
    "newest without its weights":     ("-2  end 8   no  8   8   8   no  no",  without(f"{NEWEST}/model.safetensors")),
    "newest without its optimizer":   ("-2  end 8   no  8   8   8   no  no",  without(f"{NEWEST}/optimizer.pt")),
    "newest without its manifest":    ("-2  end 8   no  8   8   8   no  no",  without(f"{NEWEST}/manifest.json")),
    "newest with an empty manifest":  ("-2  end 8   no  8   8   8   no  no",  manifest_of("")),
    "newest with another manifest":   ("-2  end 8   no  8   8   8   no  no",  manifest_of('{"files": {}}')),
    "newest with another state":      ("-2  end 8   no  8   8   8   no  no",  another_state),
    "newest may not be read":         ("-2  end no  no  no  no  no  no  no",  unreadable),
    "newest is a file":               ("-2  end 8   no  8   8   8   no  no",  a_file_as_checkpoint),
    "two cut":                        ("-2  end 4   no  no  4   4   no  no",  damaged(8, 12)),
    "all cut":                        ("-2  end no  no  no  no  no  no  no",  damaged(4, 8, 12)),
    "all cut, killed":                ("-2  no  no  no  no  no  no  no  no",  both(killed(), damaged(4, 8, 12))),
    "metrics.json cut":               ("-2  no  12  12  no  12  12  12  no",  of_others("metrics.json", '{"plan": ')),
    "metrics.json of another shape":  ("-2  no  12  12  no  12  12  12  no",  of_others("metrics.json", "[]")),
    "no step in the state":           ("-2  end no  no  no  no  no  no  no",  without_step),
    "another shape of origin.json":   ("-2  end no  no  no  no  no  no  no",  of_another_shape),
    # of the last release
    "of the last release":            ("-2  8   8   no  8   8   8   no  no",  released),
    "of it, damaged":                 ("-2  no  no  no  no  no  no  no  no",  released_and_damaged),
    "of it, in its first checkpoint": ("-2  new no  no  no  new no  no  new", released_and_killed),
    # of others
    "a file":                         ("-2  no  no  no  no  no  no  no  no",  a_file),
    "notes":                          ("-2  no  no  no  no  new no  no  new", with_files("notes.txt")),
    "another config.yaml":            ("-2  no  no  no  no  new no  no  new", with_files("config.yaml")),
    "another checkpoint":             ("-2  no  no  no  no  no  no  no  no",  with_files("checkpoint-4/config.json")),
    "another unfinished":             ("-2  no  no  no  no  no  no  no  no",  with_files("unfinished/precious")),
    "another generator":              ("-2  no  no  no  no  no  no  no  no",  with_files("generator/config.json")),
    "another report":                 ("-2  no  no  no  no  no  no  no  no",  with_files("report.html")),
    "another picture":                ("-2  no  no  no  no  no  no  no  no",  with_files("training_curves.png")),
    "other samples":                  ("-2  no  no  no  no  no  no  no  no",  with_files("samples.json")),
    "another state":                  ("-2  no  no  no  no  no  no  no  no",  with_files("trainer_state.json")),
    "another metrics.json":           ("-2  no  no  no  no  no  no  no  no",  with_files("metrics.json")),
    "another tokenizer":              ("-2  no  no  no  no  new no  no  new", with_files("tokenizer/tokenizer.json")),
    "another log":                    ("-2  no  no  no  no  new no  no  new", with_files("log.txt")),
}
# fmt: on


@pytest.fixture(scope="module")
def base():
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@contextmanager
def without_privileges():
    """Root may read and change everything; so it is somebody else here."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def link(source, target):
    """Copy a file at once; the log may still be written by the process that has made the run."""
    shutil.copy(source, target) if Path(source).name == "log.txt" else os.link(source, target)


def make_state(state, finished_run, output):
    """Make output/run in a state; its folders are this user's, see `without_privileges`."""
    shutil.copytree(finished_run, output / "run", copy_function=link)
    STATES[state][1](output / "run")
    if os.geteuid() == 0:
        for path in (output, *output.rglob("*")):
            if path.is_dir():
                os.chown(path, NOBODY, NOBODY)


def ways(output):
    """The ways to start a run, by name: functions that return a `Run`."""
    run = output / "run"
    places = {"output_dir": None, "experiment_name": None}

    def command(**options):
        options = {"output_dir": output, "train_file": "corpus.txt", **options}
        return open_run(parse_pretraining_arguments(flags(output, **options)))

    resumed = {"run": run, "newest": run / "checkpoint-12", "older": run / "checkpoint-8"}
    programs = {"none": None, "true": True, "path": str(run / "checkpoint-12"), "false": False}
    return {
        "name": command,
        "auto": partial(command, auto_resume=True),
        **{way: partial(command, resume_from_checkpoint=path, **places) for way, path in resumed.items()},
        **{way: partial(find_run, run, start) for way, start in programs.items()},
    }


def outcome(start, run):
    """What becomes of a start, see above."""
    try:
        with without_privileges():
            opened = start()
    except (UserError, OSError) as error:  # one line and exit code 2, both
        assert "\n" not in str(error) and str(run.parent) in str(error)
        return "no"
    if opened.is_finished:
        return "end"
    assert opened.folder.resolve() in (run.resolve(), run.with_name("run-2"))
    if opened.checkpoint is None:
        return "new" if opened.folder.name == "run" else opened.folder.name.removeprefix("run")
    assert Path(opened.checkpoint).parent == opened.folder
    return str(opened.step)


def listed(folder):
    """Size and inode of each file below a folder, but for locks."""
    files = [path for path in folder.rglob("*") if path.suffix != ".lock"]
    return {path.relative_to(folder): (path.lstat().st_size, path.lstat().st_ino) for path in files}


@parametrize("state", STATES)
def test_each_start_goes_on_where_the_table_says_and_loses_nothing(state, finished_run, base):
    expected, _ = STATES[state]
    outcomes = {}
    output = before = None
    for way in WAYS:
        if output is None or listed(output) != before:  # nearly no start changes anything
            output = base / state / way / "output"
            make_state(state, finished_run, output)
        before = listed(output)
        outcomes[way] = outcome(ways(output)[way], output / "run")
        after = listed(output)
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        assert all("unfinished" in path.parts for path in changed), (way, changed)
        assert not changed or outcomes[way] != "no", (way, changed)
        if outcomes[way] in ("new", "8", "12"):
            assert not (output / "run" / "unfinished").exists(), way
        if outcomes[way] == "new":
            assert not [name for name in AT_END if (output / "run" / name).exists()], way
    assert outcomes == dict(zip(WAYS, expected.split(), strict=True))


@parametrize(
    ("state", "way", "named"),
    [
        ("finished", "older", "latest .* checkpoint-12; .*copy"),
        ("finished", "false", "checkpoints, .*overwrite"),
        ("newest without its optimizer", "newest", r"checkpoint-12 has no optimizer\.pt"),
        ("all cut", "none", "no checkpoint to resume"),
        ("no folder", "run", "output/run"),
        ("no folder", "true", "output/run"),
        ("at work", "auto", "locked"),
        ("another report", "none", r"report\.html"),
        ("another unfinished", "false", "unfinished/precious"),
        ("another unfinished", "auto", "--experiment_name"),
        ("notes", "auto", "--experiment_name"),
    ],
)
def test_a_refusal_names_its_reason_or_what_to_do(state, way, named, finished_run, base):
    output = base / f"{state} {way}" / "output"
    make_state(state, finished_run, output)
    with raises(UserError, match=named):
        ways(output)[way]()


@parametrize(
    ("options", "expected"),
    [
        ({"max_steps": 12}, "end"),
        ({"max_steps": 8}, "end"),
        ({"max_steps": 13}, "12"),
        ({"max_steps": -1, "num_train_epochs": 0.001}, "end"),
        ({"max_steps": -1, "num_train_epochs": 99}, "12"),
        ({"hidden_size": 64, "seed": 7}, "end"),
        # The check of options refuses it later: integration/test_resuming.py.
        ({"hidden_size": 64, "seed": 7, "max_steps": 13}, "12"),
        ({"auto_resume": False, "experiment_name": "other"}, "new"),
        ({"plan": True}, "new"),
    ],
    ids=str,
)
def test_options_decide_whether_a_finished_run_goes_on(options, expected, finished_run, tmp_path):
    output = tmp_path / "output"
    make_state("finished", finished_run, output)
    before = listed(output)
    options = {"output_dir": output, "train_file": "corpus.txt", "auto_resume": True, **options}
    run = open_run(parse_pretraining_arguments(flags(tmp_path, **options)))
    assert (run.folder.name, expected) in (("other", "new"), ("run", expected))
    assert run.is_finished == (expected == "end")
    assert run.step == (12 if expected == "12" else 0)
    assert listed(output) == before
