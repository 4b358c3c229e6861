"""What is said of rows that are refused."""

from electra.core.errors import UserError
from electra.finetuning.row_checks import PAGE, read_all, set_apart
from tests.conftest import refused
from tests.helpers import parametrize


@parametrize("message", ["row 1 is wrong", f"row 1 is wrong; {PAGE} shows the forms"])
def test_refused_rows_are_counted_and_their_page_is_named_once(message):
    def read(row):
        if row:
            raise UserError(message)
        return row

    refusal = refused(lambda: read_all([1, 0, 1], read))
    assert refusal.startswith(message) and "2 of 3 rows" in refusal and refusal.count(PAGE) == 1


def test_training_data_with_one_label_is_refused():
    def apart(**splits):
        return set_apart(splits, sorted, lambda row: row)  # the labels of a row are its letters

    assert "all labels are 'a'" in refused(lambda: apart(train=["a", "aa", ""]))
    assert apart(train=["ab"], dev=["a"], test=[""]) == {"train": ["ab"], "dev": ["a"], "test": [""]}
