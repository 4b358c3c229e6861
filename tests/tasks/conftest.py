"""Tiny data for every kind of task that reads files."""

import pytest

from tests.tasks.classify.files import write_texts
from tests.tasks.glue.files import write_encoder, write_glue
from tests.tasks.multiple_choice.files import write_questions
from tests.tasks.squad.files import write_squad
from tests.tasks.tagging.files import write_columns


@pytest.fixture(scope="session")
def files(tmp_path_factory, glue_tokenizer):
    """encoder/, names/, quiz/ and squad/, which is of version 2.0; not to be changed."""
    path = tmp_path_factory.mktemp("files")
    write_encoder(path / "encoder", glue_tokenizer, dropout=0.0)
    write_columns(path / "names")
    write_questions(path / "quiz")
    write_squad(path / "squad", version_2=True)
    for name, new in (("type", " I-ORG"), ("tag", " PER")):
        (path / "names" / f"{name}.txt").write_text((path / "names" / "dev.txt").read_text().replace(" I-PER", new))
    return path


@pytest.fixture(scope="module")
def folder(files):
    """`files`, and the data of GLUE and of texts."""
    write_glue(files / "glue", "CoLA", "STS-B")
    return write_texts(files)
