"""What a run needs: its disk use, against the files of a real run and the space there is."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from electra.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.data import load_data
from electra.pretraining.options import parse_arguments
from electra.pretraining.plan import Plan
from electra.pretraining.resources import DiskUse, check_disk, disk_use, missing_disk
from run_pretraining import main
from tests.pretraining.runs import FAST, flags


@pytest.mark.parametrize(
    ("options", "fractions", "checkpoints", "superfluous"),
    [
        ({"save_total_limit": 10}, [], 3, False),  # of steps 5, 10, 12
        ({"save_total_limit": 1}, [], 1, True),
        ({"save_total_limit": 1}, [3, 10], 3, True),
        ({"save_strategy": "no"}, [3], 1, False),
        ({"save_steps": 0}, [], 1, False),
    ],
)
def test_disk_use_counts_the_checkpoints_that_are_kept(
    tmp_path: Path, plan: Plan, options: dict[str, object], fractions: list[int], checkpoints: int, superfluous: bool
) -> None:
    plan.checkpoint_steps.extend(fractions)
    training = parse_arguments(flags(tmp_path, **{"save_steps": 5, **options})).training
    use = disk_use(training, plan, 1000)
    networks = 4 * (plan.discriminator_parameters + plan.generator_parameters)
    assert use == DiskUse(plan.cache_bytes, 3000, checkpoints, networks, superfluous)
    assert disk_use(training.with_values(save_only_model=True), plan, 1000).checkpoint == 1000


def test_what_is_missing_counts_what_is_there_and_the_checkpoint_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use, run = DiskUse(cache=10**12, checkpoint=100, checkpoints=8, networks=150), tmp_path / "run" / "not" / "yet"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2000, 0, 1049))
    assert "1.1 kB" in str(missing_disk(use, run))  # nine checkpoints at once
    assert missing_disk(use._replace(networks=149), run) is None
    assert missing_disk(use._replace(superfluous=False), run) is None
    (run / "checkpoint-2").mkdir(parents=True)
    assert missing_disk(use, run) is None  # seven are to come


def test_a_run_that_cannot_fit_is_refused_and_a_plan_only_reports_it(
    tmp_path: Path, plan: Plan, make_pair: Callable[..., ElectraForJointPretraining], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_pair()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2000, 0, 1))
    args = parse_arguments(flags(tmp_path))
    with pytest.raises(UserError, match="--save_total_limit"):
        check_disk(args, model, plan)
    check_disk(args._replace(training=args.training.with_values(plan=True)), model, plan)


def test_a_plan_measures_a_few_steps_and_leaves_no_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(flags(folder, **FAST, plan=True))
    output = capsys.readouterr().out
    assert "10 steps of" in output and "peak memory" in output
    assert {path.name for path in folder.iterdir()} == {"corpus.txt", "cache"}


@pytest.mark.parametrize(("what", "limit"), [("token cache", 4096), ("tokenizer", 1000)])
def test_a_cache_that_cannot_be_written_is_the_users_error(
    folder: Path, wordpiece_tokenizer: PreTrainedTokenizerBase, what: str, limit: int
) -> None:
    if what == "token cache":
        wordpiece_tokenizer.save_pretrained(folder / "tok")
    args = parse_arguments(flags(folder, tokenizer_path=folder / "tok" if what == "token cache" else None))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))  # as if the disk ended there
    try:
        with pytest.raises(UserError, match=f"{what} to {folder}/cache"):
            load_data(args, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (folder / "cache").iterdir() if path.suffix != ".lock"] == []
