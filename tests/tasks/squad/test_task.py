"""SQuAD without training: options, collapsed runs."""

from types import SimpleNamespace

import numpy as np
from pytest import approx

from electra.finetuning.config import resolve_hyperparameters
from electra.finetuning.runner import open_encoder
from electra.tasks.squad.questions import Questions, SquadQuestion
from electra.tasks.squad.report import SQUAD_REPORTING
from electra.tasks.squad.task import (
    UNANSWERED,
    build_reader,
    is_reader_collapsed,
    open_squad_task,
    parse_squad_arguments,
    predictor,
    unanswered,
)
from tests.conftest import refused
from tests.helpers import parametrize
from tests.tasks.squad.files import flags


def load(files, **options):
    """Return the data and the model of a command with these options."""
    args = parse_squad_arguments(flags(files, **options))
    encoder = open_encoder(args)
    tuning = resolve_hyperparameters(args, "squad_v2", encoder)
    data = open_squad_task(args).load(encoder.tokenizer, tuning)
    return data, build_reader(encoder.model, tuning, data)


def test_a_run_is_collapsed_if_all_answers_start_at_one_place(files):
    dev = load(files, n_best_size=1)[0].references["dev"]
    first = dev.windows.context[:, 0]
    number = np.arange(len(dev.windows))
    zeros = np.zeros(len(dev.windows))
    for starts, score, collapsed in (
        (first + number % 3, zeros, False),
        (zeros, zeros, True),  # no answer to all questions
        (first, zeros, True),  # the first word of each paragraph
        (first + number % 3, zeros + np.nan, True),
    ):
        rows = np.stack([zeros, score, starts, zeros, starts], axis=1).astype(np.float32)
        assert is_reader_collapsed(rows, dev) is collapsed


@parametrize("head", ["joint", "hf", "bilstm"])
def test_options_reach_windows_model_and_answers(files, head):
    options = {"max_length": 17, "max_query_length": 2, "doc_stride": 3, "n_best_size": 3, "max_answer_length": 2}
    data, model = load(files, head=head, **options, head_dropout=0.25)
    dev = data.references["dev"]
    assert data.train.lengths.max() == 17 and "labels" in data.train[0] and "labels" not in dev.windows[0]
    assert set(dev.windows.context[:, 0]) == {4}  # behind [CLS], two tokens and [SEP]
    assert {0, 3, 6} < set(dev.windows.first_tokens.tolist())
    assert (model.beam_size, model.dropout.p) == (3, 0.25)
    ends = 9 if head == "joint" else 3  # for each of the three starts, or for all of them
    width = 1 + 3 + 3 + ends + ends  # whether there is an answer; starts and ends with their scores
    rows = np.random.default_rng(0).integers(4, 17, (len(dev.windows), width))
    answers = dev.decode(rows.astype(np.float32)).nbest.values()
    assert max(map(len, answers)) == 3
    assert max(len(answer["text"].split()) for nbest in answers for answer in nbest) == 2


def test_answering_nothing_is_a_baseline_of_version_2_alone():
    asked = [SquadQuestion(str(number), "Who?", 0, answers, None) for number, answers in enumerate((("x",), (), ()))]
    ((title, baseline),) = unanswered(Questions(["a text"], asked, True, "here")).items()
    assert (title, baseline.metrics) == (UNANSWERED, {"exact_match": approx(2 / 3), "f1": approx(2 / 3)})
    assert unanswered(Questions(["a text"], asked, False, "here")) == {}
    assert any("above a threshold is not answered" in text for text in SQUAD_REPORTING.explanations)


def test_a_saved_model_without_a_setting_of_its_answers_is_refused():
    settings = dict.fromkeys(("max_query_length", "doc_stride", "n_best_size", "max_answer_length"), 8)
    for name in settings:
        saved = SimpleNamespace(settings={other: value for other, value in settings.items() if other != name})
        assert f" {name} " in refused(lambda saved=saved: predictor(saved, SimpleNamespace(model="a folder")))
