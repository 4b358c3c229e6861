"""Which rows are held out where the user names no development set, and rows in two splits."""

from types import SimpleNamespace

from electra.finetuning.held_out import hold_out, plain_content, warn_of_repeated, with_development
from tests.conftest import refused

OPTIONS = SimpleNamespace(validation_fraction=0.1, eval_seed=0)


def test_what_belongs_together_is_on_one_side():
    rows = [(f"article {number % 40}", number) for number in range(400)]
    dev, train = hold_out(rows, 0.1, seed=3, content_of=lambda row: row[0])
    assert len(dev) == 40 and not {article for article, _ in dev} & {article for article, _ in train}
    assert sorted([*dev, *train]) == sorted(rows)
    assert hold_out(rows, 0.1, seed=3, content_of=lambda row: row[0]) == (dev, train)
    assert hold_out(rows, 0.1, seed=4, content_of=lambda row: row[0]) != (dev, train)


def test_a_development_set_of_the_user_stays_and_too_few_rows_are_refused():
    splits = {"train": [f"text {number}" for number in range(30)], "dev": ["a"], "test": ["b"]}
    assert with_development(splits, OPTIONS, plain_content, "texts") == splits
    del splits["dev"]
    completed_splits = with_development(splits, OPTIONS, plain_content, "texts")
    assert (
        len(completed_splits["dev"]) == 3
        and len(completed_splits["train"]) == 27
        and completed_splits["test"] == ["b"]
    )
    message = refused(lambda: with_development({"train": ["a"]}, OPTIONS, plain_content, "texts"))
    assert "--validation_file" in message


def test_rows_that_are_also_trained_on_are_counted_by_split(caplog):
    train = ["One text", "another"]
    warn_of_repeated({"train": train, "dev": train, "test": ["one  TEXT ", "new"]}, plain_content, "texts")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.split(" are also")[0] for text in warnings] == ["2 of 2 texts of dev", "1 of 2 texts of test"]
