"""SQuAD without training: options, the threshold of no answer, collapsed runs."""

import numpy as np

from electra.finetuning.config import resolve
from electra.finetuning.runner import open_encoder
from electra.tasks.squad.answers import Decoded
from electra.tasks.squad.command import parse_arguments
from electra.tasks.squad.task import head, is_collapsed, open_task
from tests.helpers import parametrize
from tests.tasks.squad.files import flags


def load(files, **options):
    args = parse_arguments(flags(files, **options))
    encoder = open_encoder(args)
    tuning = resolve(args, "squad_v2", encoder)
    data = open_task(args).load(encoder.tokenizer, tuning)
    return data, head(encoder.model, tuning, data)


def test_if_answering_nothing_is_best_nothing_is_answered(files):
    dev = load(files)[0].references["dev"]
    references = dev.data.references
    wrong = {name: [{"text": "nowhere"}] for name in references}
    odds = {name: -5.0 - number for number, name in enumerate(references)}
    found = dev.official_metrics(Decoded(wrong, odds))
    assert (found["best_f1"], found["best_f1_thresh"]) == (50.0, 0.0)  # as the official script
    assert (found["f1"], found["NoAns_f1"], found["HasAns_f1"]) == (50.0, 100.0, 0.0)
    right = {name: [{"text": answers[0] if answers else "x"}] for name, answers in references.items()}
    some = Decoded(right, {name: -1.0 if answers else 3.0 for name, answers in references.items()})
    assert dev.threshold(some) == -1.0 and dev.official_metrics(some)["f1"] == 100.0


def test_a_run_that_answers_nothing_is_collapsed(files):
    data, _ = load(files, head="joint", beam_size=1)
    dev = data.references["dev"]
    starts = dev.windows.context[:, 0] + np.arange(len(dev.windows)) % 3  # not all at one place
    has_answer = np.array([bool(question.answers) for question in dev.data.questions])
    odds = np.where(has_answer[dev.windows.questions], -5, -9)  # the wrong way round: no answer is worth it
    zeros = np.zeros(len(dev.windows))
    rows = np.stack([odds, zeros, starts, zeros, starts], axis=1).astype(np.float32)
    found = dev.official_metrics(dev.decode(rows))
    assert found["best_f1"] == 50.0 and is_collapsed(rows, dev)


@parametrize(("head", "beam_size"), [("joint", 4), ("hf", 3)])
def test_options_reach_windows_model_and_answers(files, head, beam_size):
    options = {"max_length": 17, "max_query_length": 2, "doc_stride": 3, "beam_size": 4}
    options |= {"n_best_size": 3, "max_answer_length": 2}
    data, model = load(files, head=head, **options, head_dropout=0.25)
    dev = data.references["dev"]
    assert data.train.lengths.max() == 17 and "labels" in data.train[0] and "labels" not in dev.windows[0]
    assert set(dev.windows.context[:, 0]) == {4}  # behind [CLS], two tokens and [SEP]
    assert {0, 3, 6} < set(dev.windows.first_tokens.tolist())
    assert (model.beam_size, model.dropout.p) == (beam_size, 0.25)
    width = 1 + 2 * beam_size + (32 if head == "joint" else 6)
    rows = np.random.default_rng(0).integers(4, 17, (len(dev.windows), width))
    answers = dev.decode(rows.astype(np.float32)).nbest.values()
    assert max(map(len, answers)) == 3
    assert max(len(answer["text"].split()) for found in answers for answer in found) == 2
