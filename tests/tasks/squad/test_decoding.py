"""Answers from hand-made scores of both heads, and from random ones against a loop over all candidates."""

import math
import random

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from electra.tasks.squad.data import Question, Questions
from electra.tasks.squad.decoding import Answer, Decoded, decode, has_one_start
from electra.tasks.squad.heads import Candidates
from electra.tasks.squad.windows import EncodedQuestions, encode_questions

WORDS = "10 11 12 13 14"
"""The paragraph; behind a question of one token its positions are 3 to 7, and 8 is [SEP]."""
NEVER = -math.inf


def encode(
    tokenizer: PreTrainedTokenizerBase, *paragraphs: str, max_length: int = 40
) -> tuple[Questions, EncodedQuestions]:
    asked = [Question(f"q{i}", "7", i, (), None) for i in range(len(paragraphs))]
    data = Questions(list(paragraphs), asked, is_version_2=True, source="test")
    options = {"max_query_length": 9, "doc_stride": 6, "is_training": False}
    return data, encode_questions(data, tokenizer, max_length=max_length, **options)  # type: ignore[arg-type]


def independent(starts: dict[int, float], ends: dict[int, float], null: float = 0.0) -> Candidates:
    return Candidates(
        np.array([list(starts.values())], np.float32), np.array([list(starts)]),
        np.array([[list(ends.values())]], np.float32), np.array([[list(ends)]]), np.array([null], np.float32),
    )  # fmt: skip


def joint(starts: dict[int, float], ends: list[dict[int, float]], null: float = 0.0) -> Candidates:
    return Candidates(
        np.array([list(starts.values())], np.float32), np.array([list(starts)]),
        np.array([[list(row.values()) for row in ends]], np.float32), np.array([[list(row) for row in ends]]),
        np.array([null], np.float32),
    )  # fmt: skip


def decoded(
    found: tuple[Questions, EncodedQuestions], candidates: Candidates, *, n: int = 20, longest: int = 30, **kw: bool
) -> Decoded:
    has_classifier = kw.get("has_classifier", candidates.ends.shape[1] > 1)
    return decode(
        *found, candidates, n_best_size=n, max_answer_length=longest, has_classifier=has_classifier
    )  # fmt: skip


def test_the_best_pair_of_a_start_and_an_end_wins(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    one = encode(framed_tokenizer, WORDS)
    found = decoded(one, independent({4: 3.0, 3: 1.0, 7: 0.5}, {5: 2.0, 6: 1.5, 3: 1.0}), n=4)
    assert found.answers == {"q0": [
        Answer("11 12", 3.0, 2.0), Answer("11 12 13", 3.0, 1.5), Answer("10 11 12", 1.0, 2.0),
        Answer("10 11 12 13", 1.0, 1.5),
    ]}  # fmt: skip
    assert found.predictions == {"q0": "11 12"}


def test_the_joint_head_s_ends_belong_to_their_start(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    one = encode(framed_tokenizer, WORDS)
    ends = [{5: -3.0, 6: -4.0}, {7: -0.5, 3: -1.0}]
    found = decoded(one, joint({4: -0.1, 3: -2.0}, ends))
    assert found.answers["q0"] == [
        Answer("10 11 12 13 14", -2.0, -0.5), Answer("10", -2.0, -1.0),
        Answer("11 12", float(np.float32(-0.1)), -3.0), Answer("11 12 13", float(np.float32(-0.1)), -4.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("starts", "ends", "longest", "texts"),
    [
        ({0: 9.0, 1: 8.0, 2: 7.0, 8: 6.0, 3: 0.0}, {3: 0.0}, 30, ["10"]),  # [CLS], question, [SEP] are no starts
        ({3: 0.0}, {0: 9.0, 2: 8.0, 8: 7.0, 7: 0.0}, 30, [WORDS]),  # nor ends
        ({5: 9.0, 3: 0.0}, {4: 9.0}, 30, ["10 11"]),  # an end before its start
        ({3: 9.0, 5: 0.0}, {7: 9.0}, 3, ["12 13 14"]),  # too long
        ({3: NEVER, 5: 0.0}, {5: 0.0}, 30, ["12"]),
        ({5: 0.0}, {4: 0.0}, 30, [""]),  # nothing will do
    ],
)
def test_what_cannot_be_an_answer_is_none(
    framed_tokenizer: PreTrainedTokenizerBase, starts: dict[int, float], ends: dict[int, float], longest: int,
    texts: list[str],
) -> None:  # fmt: skip
    found = decoded(encode(framed_tokenizer, WORDS), independent(starts, ends), longest=longest)
    assert [answer.text for answer in found.answers["q0"]] == texts


def test_equal_texts_are_one_answer_with_the_best_score(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    one = encode(framed_tokenizer, "10 11 10")
    found = decoded(one, independent({3: 1.0, 5: 2.0}, {3: 0.0, 5: 0.0}), longest=1)
    assert found.answers["q0"] == [Answer("10", 2.0, 0.0)]


def test_an_answer_is_written_as_the_paragraph_writes_it(wordpiece_tokenizer: PreTrainedTokenizerBase) -> None:
    one = encode(wordpiece_tokenizer, "the  WÖRDS,\n are Réal.", max_length=60)
    text = [one[0].paragraphs[0][a:b] for a, b in one[1].offsets[0]]
    base = int(one[1].windows.context[0, 0])
    first, comma = (
        text.index("W") if "W" in text else next(i for i, t in enumerate(text) if t[0] == "W"),
        text.index(","),
    )
    found = decoded(one, independent({base + first: 1.0}, {base + comma - 1: 1.0, base + len(text) - 2: 0.0}))
    assert [answer.text for answer in found.answers["q0"]] == ["WÖRDS", "WÖRDS,\n are Réal"]


def test_odds_of_no_answer(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    """BERT's: [CLS] against the best answer, over all windows. The original's: what the classifier says, no more."""
    one = encode(framed_tokenizer, WORDS)
    scores = independent({3: 2.0}, {4: 1.5}, null=1.0)
    assert decoded(one, scores).null_odds == {"q0": -2.5}
    assert decoded(one, scores, has_classifier=True).null_odds == {"q0": 1.0}
    two = encode(framed_tokenizer, " ".join(map(str, range(10, 26))), max_length=14)  # windows of ten
    both = Candidates(*(np.concatenate([a, b]) for a, b in zip(
        independent({5: 1.0}, {5: 1.0}, null=4.0), independent({8: 2.0}, {8: 0.0}, null=3.0), strict=True
    )))  # fmt: skip
    assert len(two[1].windows) == 2
    assert decoded(two, both, has_classifier=True).null_odds == {"q0": 3.0}  # where there is an answer is enough
    assert decoded(two, both).null_odds == {"q0": 1.0}


def test_a_token_is_an_answer_s_start_only_where_it_has_most_context(
    framed_tokenizer: PreTrainedTokenizerBase,
) -> None:
    found = encode(framed_tokenizer, " ".join(map(str, range(10, 26))), max_length=14)  # 10-19 and 16-25
    assert found[1].windows.most_context.tolist() == [[3, 11], [5, 13]]  # 10-17 and 18-25
    first, second = independent({11: 9.0}, {11: 0.0}), independent({5: 1.0}, {5: 0.0})  # 18 in both windows
    both = Candidates(*(np.concatenate([a, b]) for a, b in zip(first, second, strict=True)))
    assert decoded(found, both).answers["q0"] == [Answer("18", 1.0, 0.0)]
    crossing = Candidates(
        *(np.concatenate([a, b]) for a, b in zip(independent({10: 2.0}, {12: 1.0}), second, strict=True))
    )
    assert decoded(found, crossing).answers["q0"][0] == Answer("17 18 19", 2.0, 1.0)  # its end may stand further


def test_probabilities_are_a_softmax_over_the_answers(framed_tokenizer: PreTrainedTokenizerBase) -> None:
    found = decoded(encode(framed_tokenizer, WORDS), independent({3: 2.0, 4: 1.0}, {4: 0.5}))
    total = math.exp(2.5) + math.exp(1.5)
    assert found.nbest == {"q0": [
        {"text": "10 11", "probability": pytest.approx(math.exp(2.5) / total), "start_logit": 2.0, "end_logit": 0.5},
        {"text": "11", "probability": pytest.approx(math.exp(1.5) / total), "start_logit": 1.0, "end_logit": 0.5},
    ]}  # fmt: skip


@pytest.mark.parametrize("joint_ends", [True, False])
def test_answers_are_those_of_a_loop_over_all_candidates(
    framed_tokenizer: PreTrainedTokenizerBase, joint_ends: bool
) -> None:
    source = random.Random(0)
    paragraphs = [" ".join(str(source.randint(10, 16)) for _ in range(source.randint(1, 40))) for _ in range(12)]
    data, encoded = encode(framed_tokenizer, *paragraphs, max_length=18)
    size, windows = 6, encoded.windows
    rng = np.random.default_rng(0)
    shape = (len(windows), size, size) if joint_ends else (len(windows), 1, size)
    candidates = Candidates(
        rng.normal(size=(len(windows), size)).astype(np.float32), rng.integers(0, 18, (len(windows), size)),
        rng.normal(size=shape).astype(np.float32), rng.integers(0, 18, shape),
        rng.normal(size=len(windows)).astype(np.float32),
    )  # fmt: skip
    found = decode(data, encoded, candidates, n_best_size=4, max_answer_length=5, has_classifier=True)
    for index, question in enumerate(data.questions):
        best: dict[str, float] = {}
        for w in np.flatnonzero(windows.questions == index):
            tokens = windows[w]["input_ids"]
            for k in range(size):
                for j in range(size):
                    row = k if joint_ends else 0
                    start, end = int(candidates.starts[w, k]), int(candidates.ends[w, row, j])
                    low, high = windows.most_context[w]
                    if low <= start < high and start <= end < windows.context[w, 1] and end - start < 5:
                        text = " ".join(map(str, tokens[start : end + 1]))
                        score = float(candidates.start_scores[w, k]) + float(candidates.end_scores[w, row, j])
                        best[text] = max(best.get(text, -99.0), score)
        expected = sorted(best.items(), key=lambda item: -item[1])[:4] or [("", 0.0)]
        assert [(a.text, a.start_score + a.end_score) for a in found.answers[question.id]] == expected
        assert found.null_odds[question.id] == candidates.unanswerable[windows.questions == index].min()


@pytest.mark.parametrize(
    ("starts", "null", "same"),
    [
        ([3, 4, 5], 0.0, False),
        ([0, 0, 0], 0.0, True),  # [CLS]
        ([3, 4, 4], 0.0, False),
        ([3, 3, 4], 0.0, True),  # the first word of each paragraph
        ([4, 4, 5], 0.0, True),  # the second
        ([3, 4, 5], math.nan, True),
        ([3, 4, 5], math.inf, True),
    ],
)
def test_a_run_that_starts_everywhere_at_the_same_place_has_one_start(
    framed_tokenizer: PreTrainedTokenizerBase, starts: list[int], null: float, same: bool
) -> None:
    asked = [Question(str(i), text, i, (), None) for i, text in enumerate(("7", "7", "7 8"))]
    data = Questions([WORDS] * 3, asked, is_version_2=True, source="test")
    options = {"max_length": 40, "max_query_length": 9, "doc_stride": 6, "is_training": False}
    windows = encode_questions(data, framed_tokenizer, **options).windows  # type: ignore[arg-type]
    assert windows.context[:, 0].tolist() == [3, 3, 4]
    scores = np.zeros((3, 1), np.float32)
    one = np.array(starts).reshape(3, 1)
    candidates = Candidates(scores, one, scores[:, None], one[:, None], np.array([0, 0, null], np.float32))
    assert has_one_start(candidates, windows, data) is same
    behind_cls = np.concatenate([np.zeros_like(one), one], axis=1)  # the best answer is behind that there is none
    scores = np.tile(np.array([0, -1], np.float32), (3, 1))
    candidates = candidates._replace(start_scores=scores, starts=behind_cls)
    assert has_one_start(candidates, windows, data) is same


@pytest.mark.parametrize(("places", "same"), [((0, 0, 0), False), ((0, 3, 6), True)])
def test_the_same_place_everywhere_is_right_where_all_answers_stand_there(
    framed_tokenizer: PreTrainedTokenizerBase, places: tuple[int, ...], same: bool
) -> None:
    asked = [Question(str(i), "7", i, (WORDS[place : place + 2],), place) for i, place in enumerate(places)]
    data = Questions([WORDS] * 3, asked, is_version_2=False, source="test")
    options = {"max_length": 40, "max_query_length": 9, "doc_stride": 6, "is_training": False}
    windows = encode_questions(data, framed_tokenizer, **options).windows  # type: ignore[arg-type]
    scores, starts = np.zeros((3, 1), np.float32), np.full((3, 1), 3)
    candidates = Candidates(scores, starts, scores[:, None], starts[:, None], np.zeros(3, np.float32))
    assert has_one_start(candidates, windows, data) is same
