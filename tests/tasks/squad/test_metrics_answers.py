"""Answers from hand-made scores of both heads, and from random ones against a loop over all candidates."""

import math

import numpy as np
from pytest import approx

from electra.tasks.squad.data import encode_questions
from electra.tasks.squad.heads import Candidates
from electra.tasks.squad.metrics import decode
from electra.tasks.squad.questions import Questions, SquadQuestion
from tests.helpers import parametrize

WORDS = "10 11 12 13 14"
"""The paragraph; behind a question of one token its positions are 3 to 7, and 8 is [SEP]."""
LONG = " ".join(map(str, range(10, 26)))
"""A paragraph of two windows of ten tokens, if windows have 14: 10 to 19 and 16 to 25."""
NEVER = -math.inf


def encode(tokenizer, *paragraphs, max_length=40):
    """Return the question "7" on each paragraph, and its windows."""
    questions = [SquadQuestion(f"q{number}", "7", number, (), None) for number, _ in enumerate(paragraphs)]
    data = Questions(list(paragraphs), questions, is_version_2=True, source="test")
    settings = {"max_length": max_length, "max_query_length": 9, "doc_stride": 6}
    return data, encode_questions(data, tokenizer, settings)


def candidates(starts, *ends, null=0.0):
    """Return the scores of one window; one dictionary of ends for all starts, or one for each."""
    return Candidates(
        np.array([list(starts.values())], np.float32), np.array([list(starts)]),
        np.array([[list(row.values()) for row in ends]], np.float32), np.array([[list(row) for row in ends]]),
        np.array([null], np.float32),
    )  # fmt: skip


def stack(*windows):
    """Return the scores of several windows."""
    return Candidates(*map(np.concatenate, zip(*windows, strict=True)))


def decoded(encoded, scores, n_best_size=20, longest=30, has_classifier=False):
    """Return the answers to questions and windows of `encode`, by default as BERT's head has them."""
    head = "joint" if has_classifier else "hf"
    return decode(*encoded, scores, {"n_best_size": n_best_size, "max_answer_length": longest, "head": head})


def test_an_answer_is_written_as_the_paragraph_writes_it(wordpiece_tokenizer):
    data, windows = encode(wordpiece_tokenizer, "the  WÖRDS,\n are Réal.", max_length=60)
    starts = windows.offsets[0][:, 0].tolist()
    base = int(windows.context[0, 0])
    first = starts.index(5)
    comma = starts.index(10)
    scores = candidates({base + first: 1.0}, {base + comma - 1: 1.0, base + len(starts) - 2: 0.0})
    answers = decoded((data, windows), scores).nbest["q0"]
    assert [answer["text"] for answer in answers] == ["WÖRDS", "WÖRDS,\n are Réal"]


def test_odds_of_no_answer_are_the_classifiers_or_against_the_best_answer(framed_tokenizer):
    """BERT's: [CLS] against the best answer, over all windows. The original's: what the classifier says, no more."""
    two = encode(framed_tokenizer, LONG, max_length=14)
    both = stack(candidates({5: 1.0}, {5: 1.0}, null=4.0), candidates({8: 2.0}, {8: 0.0}, null=3.5))
    assert decoded(two, both, has_classifier=True).null_odds == {"q0": 3.5}  # where there is an answer is enough
    assert decoded(two, both).null_odds == {"q0": 1.5}


def test_probabilities_are_a_softmax_over_the_answers(framed_tokenizer):
    encoded = encode(framed_tokenizer, WORDS)
    answers = decoded(encoded, candidates({3: 2.0, 4: 1.0, 5: NEVER}, {4: 0.5}))
    total = math.exp(2.5) + math.exp(1.5)
    assert answers.nbest == {"q0": [
        {"text": "10 11", "probability": approx(math.exp(2.5) / total), "start_logit": 2.0, "end_logit": 0.5},
        {"text": "11", "probability": approx(math.exp(1.5) / total), "start_logit": 1.0, "end_logit": 0.5},
    ]}  # fmt: skip
    nothing_will_do = candidates({0: 9.0, 5: 0.0, 3: NEVER}, {4: 0.0})
    assert decoded(encoded, nothing_will_do).predictions == {"q0": ""}


@parametrize("has_joint_head", [True, False])
def test_answers_are_those_of_a_loop_over_all_candidates(framed_tokenizer, has_joint_head):
    rng = np.random.default_rng(0)
    size = 6
    paragraphs = [" ".join(map(str, rng.integers(10, 17, rng.integers(1, 40)))) for _ in range(12)]
    data, windows = encode(framed_tokenizer, *paragraphs, max_length=18)
    starts = (len(windows), size)
    ends = (len(windows), size if has_joint_head else 1, size)
    scores = Candidates(
        rng.normal(size=starts).astype(np.float32), rng.integers(0, 18, starts),
        rng.normal(size=ends).astype(np.float32), rng.integers(0, 18, ends),
        rng.normal(size=len(windows)).astype(np.float32),
    )  # fmt: skip
    decoded_answers = decoded((data, windows), scores, n_best_size=4, longest=5, has_classifier=True)
    for index, question in enumerate(data.questions):
        best = {}
        for window in np.flatnonzero(windows.questions == index):
            for start_rank, end_rank in np.ndindex(size, size):
                row = start_rank if has_joint_head else 0
                start = int(scores.starts[window, start_rank])
                end = int(scores.ends[window, row, end_rank])
                low, high = windows.most_context[window]
                if low <= start < high and start <= end < windows.context[window, 1] and end - start < 5:
                    text = " ".join(map(str, windows[window]["input_ids"][start : end + 1]))
                    end_score = float(scores.end_scores[window, row, end_rank])
                    score = float(scores.start_scores[window, start_rank]) + end_score
                    best[text] = max(best.get(text, -99.0), score)
        expected = sorted(best.items(), key=lambda item: -item[1])[:4] or [("", 0.0)]
        answers = decoded_answers.nbest[question.id]
        assert [(answer["text"], answer["start_logit"] + answer["end_logit"]) for answer in answers] == expected
        assert decoded_answers.null_odds[question.id] == scores.unanswerable[windows.questions == index].min()
