"""Both heads against their definitions written out with loops; the loss's numbers and gradients.

Answers from hand-made scores of both heads, and from random ones against a loop over all candidates.
"""

import math
from functools import partial

import numpy as np
import torch
from pytest import approx
from torch.nn.functional import gelu

from electra.tasks.squad.data import Question, Questions
from electra.tasks.squad.heads import (
    Candidates,
    IndependentHead,
    SpanLogits,
    SpanModel,
    decode,
    has_one_start,
    span_loss,
)
from electra.tasks.squad.windows import encode_questions
from tests.finetuning.test_heads import make_batch as make_texts
from tests.finetuning.test_heads import make_encoder
from tests.helpers import parametrize

assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)
HEADS = ("joint", "independent")
LENGTH = 9
CONTEXT = torch.tensor([[4, 8], [3, 5]])
"""Of rows of nine and six tokens."""
ALLOWED = [0, 4, 5, 6, 7], [0, 3, 4]
WORDS = "10 11 12 13 14"
"""The paragraph; behind a question of one token its positions are 3 to 7, and 8 is [SEP]."""
LONG = " ".join(map(str, range(10, 26)))
"""A paragraph of two windows of ten tokens, if windows have 14: 10 to 19 and 16 to 25."""
NEVER = -math.inf


def make_batch(length=LENGTH):
    return {**make_texts(length, lengths=(9, 6)), "context": CONTEXT}


def make_model(head, *, has_classifier=True, beam_size=3):
    torch.manual_seed(2)
    model = SpanModel(make_encoder(), head, has_classifier, beam_size).eval()
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def hidden_states(model):
    hidden = model.encoder(**{n: v for n, v in make_batch().items() if n != "context"}).last_hidden_state
    return hidden


def logits_of(model, **batch):
    """With the true starts 6 and 0."""
    found = model(**(batch or make_batch()), start_positions=torch.tensor([6, 0]))
    assert isinstance(found, SpanLogits)
    return found


def candidates_of(model, **batch):
    found = Candidates.unpack(model(**(batch or make_batch())).detach().numpy(), model.beam_size)
    return Candidates(*(torch.from_numpy(part) for part in found))


def both_logits(head, tokens):
    """Of starts and ends: one linear layer."""
    layer = head.transformers.model.qa_outputs
    return tokens @ layer.weight.T + layer.bias


def start_logits(head, tokens):
    if isinstance(head, IndependentHead):
        return both_logits(head, tokens)[:, 0]
    return head.start(tokens).squeeze(-1)


def end_logits(head, tokens, start):
    """Of the joint head: one dense layer on the vectors of start and token, one to a logit."""
    if isinstance(head, IndependentHead):
        return both_logits(head, tokens)[:, 1]
    weight = torch.cat([head.end_of_start.weight, head.end_of_token.weight], dim=1)
    both = torch.cat([start.expand_as(tokens), tokens], dim=1)
    return head.end_logit(gelu(both @ weight.T + head.end_of_token.bias)).squeeze(-1)


@parametrize("name", HEADS)
def test_scores_are_those_of_the_definition(name):
    model, is_joint = make_model(name), name == "joint"
    hidden, logits, found, head = hidden_states(model), logits_of(model), candidates_of(model), model.head
    assert found.starts.shape == (2, 3) and found.ends.shape == (2, 3 if is_joint else 1, 3)
    for row, (places, true_start) in enumerate(zip(ALLOWED, (6, 0), strict=True)):
        tokens = hidden[row, places]
        starts, ends = start_logits(head, tokens), end_logits(head, tokens, hidden[row, true_start])
        for values, expected in ((logits.start[row], starts), (logits.end[row], ends)):
            assert_close(values[places], expected)
            assert values.isneginf().sum() == LENGTH - len(places)
        normalized, order = (starts.log_softmax(0) if is_joint else starts).sort(descending=True)
        assert found.starts[row].tolist() == [places[i] for i in order[:3]]
        assert_close(found.start_scores[row], normalized[:3])
        for k, start in enumerate(found.starts[row].tolist() if is_joint else [0]):
            of_start = end_logits(head, tokens, hidden[row, start])
            normalized, order = (of_start.log_softmax(0) if is_joint else of_start).sort(descending=True)
            assert found.ends[row, k].tolist() == [places[i] for i in order[:3]]
            assert_close(found.end_scores[row, k], normalized[:3])
        if is_joint:  # the classifier reads [CLS] and where the answer would start
            unanswerable = head.unanswerable(torch.cat([tokens[0], starts.softmax(0) @ tokens])).squeeze()
            assert_close(logits.unanswerable[row], unanswerable)
        else:
            unanswerable = starts[0] + ends[0]
            assert logits.unanswerable is None
        assert_close(found.unanswerable[row], unanswerable)


def test_without_a_classifier_there_is_no_score_of_no_answer():
    model = make_model("joint", has_classifier=False)
    assert logits_of(model).unanswerable is None and not candidates_of(model).unanswerable.any()


@parametrize("head", HEADS)
def test_neither_padding_nor_a_wide_beam_changes_a_score(head):
    model = make_model(head, beam_size=20)
    found, padded = candidates_of(model), candidates_of(model, **make_batch(length=14))
    assert found.starts.shape == (2, 20) and found.ends.shape == (2, 20 if head == "joint" else 1, 20)
    assert found.start_scores[1].isfinite().tolist() == [True] * 3 + [False] * 17
    assert found.end_scores[0, 0].isfinite().tolist() == [True] * 5 + [False] * 15
    assert_close(found.start_scores, padded.start_scores)
    assert_close(found.end_scores[:, 0], padded.end_scores[:, 0])


def test_the_loss_is_the_mean_of_both_ends_and_the_classifier_s():
    start = torch.tensor([[1.0, 2.0, -math.inf], [0.5, 0.0, 0.0]])
    end = torch.tensor([[0.0, 0.0, -math.inf], [3.0, 0.0, 1.0]])
    labels = torch.tensor([[1, 0, 0], [0, 0, 1]])
    ends = math.log(2) - math.log(math.exp(3) / (math.exp(3) + 1 + math.e))
    starts = math.log(1 + math.exp(-1)) - math.log(math.exp(0.5) / (math.exp(0.5) + 2))
    plain = (starts + ends) / 2
    assert span_loss(SpanLogits(start, end, None), labels).item() == approx(plain / 2)
    classifier = math.log(1 + math.exp(0.7)) + math.log(1 + math.exp(0.2))
    logits = SpanLogits(start, end, torch.tensor([0.7, -0.2]))
    assert span_loss(logits, labels).item() == approx((plain + 0.5 * classifier) / 2)
    # A part of a step of five windows, of which each has three labels.
    assert span_loss(logits, labels, 15).item() == approx((plain + 0.5 * classifier) / 5)


def test_the_loss_s_gradients_are_probabilities_minus_the_truth():
    start = torch.tensor([[1.0, 2.0, -math.inf, 0.0]], requires_grad=True)
    end = torch.tensor([[0.0, 1.0, -math.inf, 0.5]], requires_grad=True)
    unanswerable = torch.tensor([0.3], requires_grad=True)
    span_loss(SpanLogits(start, end, unanswerable), torch.tensor([[1, 3, 0]])).backward()
    right_start, right_end = torch.tensor([[0.0, 1, 0, 0]]), torch.tensor([[0.0, 0, 0, 1]])
    torch.testing.assert_close(start.grad, (start.detach().softmax(-1) - right_start) / 2)
    torch.testing.assert_close(end.grad, (end.detach().softmax(-1) - right_end) / 2)
    torch.testing.assert_close(unanswerable.grad, 0.5 * unanswerable.detach().sigmoid())


@parametrize("head", HEADS)
def test_every_weight_of_head_and_encoder_gets_a_gradient(head):
    model = make_model(head).train()
    span_loss(logits_of(model), torch.tensor([[6, 7, 0], [0, 0, 1]])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name
        if (name.startswith("head.") and name.endswith("weight")) or name.endswith("query.weight"):
            assert parameter.grad.any(), name


def test_dropout_stands_in_front_of_the_head_alone():
    """The original has none there; the encoder keeps its own."""
    encoder = make_encoder(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    for dropout in (0.0, 0.5):
        model = SpanModel(encoder, "joint", True, 2, dropout).train()
        assert torch.equal(logits_of(model).start, logits_of(model).start) == (dropout == 0)


@parametrize("head", HEADS)
def test_the_head_computes_in_float32_under_autocast(head):
    model = make_model(head)
    with torch.autocast("cpu", torch.bfloat16):
        logits, hidden = logits_of(model), hidden_states(model).float()
    assert not torch.equal(logits.start, logits_of(model).start)  # the encoder does not
    can_be_answer = torch.tensor([[place in places for place in range(LENGTH)] for places in ALLOWED])
    expected = model.head(hidden, can_be_answer, torch.tensor([6, 0]))
    for value, right in zip(logits[:2], expected[:2], strict=True):
        torch.testing.assert_close(value, right, rtol=1e-6, atol=1e-6)


def encode(tokenizer, *paragraphs, places=(), asked=(), max_length=40):
    """A question on each paragraph, "7" if not `asked`; its answer, of two characters, is at `places`."""
    questions = []
    for i, paragraph in enumerate(paragraphs):
        start = places[i] if places else None
        answers = () if start is None else (paragraph[start : start + 2],)
        questions.append(Question(f"q{i}", asked[i] if asked else "7", i, answers, start))
    data = Questions(list(paragraphs), questions, is_version_2=True, source="test")
    return data, encode_questions(data, tokenizer, max_length, max_query_length=9, doc_stride=6, is_training=False)


def candidates(starts, *ends, null=0.0):
    """Of one window; one dictionary of ends for all starts, or one for each."""
    return Candidates(
        np.array([list(starts.values())], np.float32), np.array([list(starts)]),
        np.array([[list(row.values()) for row in ends]], np.float32), np.array([[list(row) for row in ends]]),
        np.array([null], np.float32),
    )  # fmt: skip


def stack(*windows):
    return Candidates(*map(np.concatenate, zip(*windows, strict=True)))


def decoded(found, scores, n=20, longest=30, has_classifier=False):
    return decode(*found, scores, n, longest, has_classifier)


def test_an_answer_is_written_as_the_paragraph_writes_it(wordpiece_tokenizer):
    data, windows = encode(wordpiece_tokenizer, "the  WÖRDS,\n are Réal.", max_length=60)
    starts = windows.offsets[0][:, 0].tolist()
    base, first, comma = int(windows.context[0, 0]), starts.index(5), starts.index(10)
    scores = candidates({base + first: 1.0}, {base + comma - 1: 1.0, base + len(starts) - 2: 0.0})
    answers = decoded((data, windows), scores).nbest["q0"]
    assert [answer["text"] for answer in answers] == ["WÖRDS", "WÖRDS,\n are Réal"]


def test_odds_of_no_answer(framed_tokenizer):
    """BERT's: [CLS] against the best answer, over all windows. The original's: what the classifier says, no more."""
    two = encode(framed_tokenizer, LONG, max_length=14)
    both = stack(candidates({5: 1.0}, {5: 1.0}, null=4.0), candidates({8: 2.0}, {8: 0.0}, null=3.5))
    assert decoded(two, both, has_classifier=True).null_odds == {"q0": 3.5}  # where there is an answer is enough
    assert decoded(two, both).null_odds == {"q0": 1.5}


def test_probabilities_are_a_softmax_over_the_answers(framed_tokenizer):
    one = encode(framed_tokenizer, WORDS)
    found = decoded(one, candidates({3: 2.0, 4: 1.0, 5: NEVER}, {4: 0.5}))
    total = math.exp(2.5) + math.exp(1.5)
    assert found.nbest == {"q0": [
        {"text": "10 11", "probability": approx(math.exp(2.5) / total), "start_logit": 2.0, "end_logit": 0.5},
        {"text": "11", "probability": approx(math.exp(1.5) / total), "start_logit": 1.0, "end_logit": 0.5},
    ]}  # fmt: skip
    assert decoded(one, candidates({0: 9.0, 5: 0.0, 3: NEVER}, {4: 0.0})).predictions == {"q0": ""}  # nothing will do


@parametrize("has_joint_head", [True, False])
def test_answers_are_those_of_a_loop_over_all_candidates(framed_tokenizer, has_joint_head):
    rng, size = np.random.default_rng(0), 6
    paragraphs = [" ".join(map(str, rng.integers(10, 17, rng.integers(1, 40)))) for _ in range(12)]
    data, windows = encode(framed_tokenizer, *paragraphs, max_length=18)
    starts, ends = (len(windows), size), (len(windows), size if has_joint_head else 1, size)
    scores = Candidates(
        rng.normal(size=starts).astype(np.float32), rng.integers(0, 18, starts),
        rng.normal(size=ends).astype(np.float32), rng.integers(0, 18, ends),
        rng.normal(size=len(windows)).astype(np.float32),
    )  # fmt: skip
    found = decoded((data, windows), scores, n=4, longest=5, has_classifier=True)
    for index, question in enumerate(data.questions):
        best = {}
        for w in np.flatnonzero(windows.questions == index):
            for k, j in np.ndindex(size, size):
                row = k if has_joint_head else 0
                start, end = int(scores.starts[w, k]), int(scores.ends[w, row, j])
                low, high = windows.most_context[w]
                if low <= start < high and start <= end < windows.context[w, 1] and end - start < 5:
                    text = " ".join(map(str, windows[w]["input_ids"][start : end + 1]))
                    score = float(scores.start_scores[w, k]) + float(scores.end_scores[w, row, j])
                    best[text] = max(best.get(text, -99.0), score)
        expected = sorted(best.items(), key=lambda item: -item[1])[:4] or [("", 0.0)]
        answers = found.nbest[question.id]
        assert [(a["text"], a["start_logit"] + a["end_logit"]) for a in answers] == expected
        assert found.null_odds[question.id] == scores.unanswerable[windows.questions == index].min()


@parametrize(
    ("starts", "null", "places", "same"),
    [
        ([3, 4, 5], 0.0, (), False),
        ([0, 0, 0], 0.0, (), True),  # [CLS]
        ([3, 3, 4], 0.0, (), True),  # the first word of each paragraph
        ([4, 4, 4], 0.0, (), True),  # the same position of each window
        ([3, 4, 5], math.nan, (), True),
        ([3, 3, 4], 0.0, (0, 0, 0), False),  # where all true answers start
        ([3, 3, 4], 0.0, (0, 3, 6), True),
    ],
)
@parametrize("behind_cls", [True, False])
def test_a_run_that_starts_everywhere_alike_has_one_start(framed_tokenizer, starts, null, places, same, behind_cls):
    data, windows = encode(framed_tokenizer, WORDS, WORDS, WORDS, places=places, asked=("7", "7", "7 8"))
    assert windows.context[:, 0].tolist() == [3, 3, 4]
    first = {0: 0.0} if behind_cls else {}  # the best answer is behind that there is none
    found = stack(*(candidates({**first, start: -1.0}, {3: 0.0}, null=null) for start in starts))
    assert has_one_start(found, windows, data) is same
