"""Both heads against their definitions written out with loops; the loss's numbers and gradients."""

import math
from functools import partial

import torch
from pytest import approx
from torch.nn.functional import gelu

from electra.tasks.squad.heads import (
    BiLstmSpanHead,
    Candidates,
    IndependentHead,
    SpanLogits,
    SpanModel,
    span_loss,
)
from tests.finetuning.test_heads import make_batch as make_texts
from tests.finetuning.test_heads import make_encoder
from tests.helpers import parametrize

assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)
HEADS = ("joint", "hf", "bilstm")
LENGTH = 9
CONTEXT = torch.tensor([[4, 8], [3, 5]])
"""First token of the paragraph, and the one behind its last, in rows of nine and six tokens."""
ALLOWED = [0, 4, 5, 6, 7], [0, 3, 4]
"""Tokens of these rows at which an answer may start or end: [CLS], for no answer, and the paragraph."""


def make_batch(length=LENGTH):
    """Return two questions with paragraphs at `CONTEXT`."""
    return {**make_texts(length, lengths=(9, 6)), "context": CONTEXT}


def make_model(head, *, has_classifier=True, beam_size=3):
    """Return a model in evaluation, with weights of the head that are not small, but for an LSTM."""
    torch.manual_seed(2)
    model = SpanModel(make_encoder(), head, has_classifier, beam_size).eval()
    with torch.no_grad():
        for name, parameter in model.head.named_parameters():
            if "lstm" not in name:  # recurrent weights of this size would multiply rounding several hundred times
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def hidden_states(model):
    """Return what the encoder makes of the batch."""
    batch = make_batch()
    del batch["context"]
    return model.encoder(**batch).last_hidden_state


def states_of_head(model):
    """Return what the last layer of the head reads."""
    hidden = hidden_states(model)
    if isinstance(model.head, BiLstmSpanHead):  # to the end of the paragraph
        return model.head.lstm(hidden, CONTEXT[:, 1]).outputs
    return hidden


def logits_of(model):
    """Return the logits of the batch, with the true starts 6 and 0."""
    logits = model(**make_batch(), start_positions=torch.tensor([6, 0]))
    assert isinstance(logits, SpanLogits)
    return logits


def candidates_of(model, **batch):
    """Return the best starts and ends with their scores."""
    parts = Candidates.unpack(model(**(batch or make_batch())).detach().numpy(), model.beam_size)
    return Candidates(*(torch.from_numpy(part) for part in parts))


def both_logits(head, tokens):
    """Return the logits of starts and ends at these tokens, from one linear layer."""
    layer = head.outputs if isinstance(head, BiLstmSpanHead) else head.transformers.model.qa_outputs
    return tokens @ layer.weight.T + layer.bias


def start_logits(head, tokens):
    """Return the logits of starts at these tokens."""
    if isinstance(head, IndependentHead):
        return both_logits(head, tokens)[:, 0]
    return head.start(tokens).squeeze(-1)


def end_logits(head, tokens, start):
    """Return the logits of ends; the joint head has a dense layer on vectors of start and token, one to a logit."""
    if isinstance(head, IndependentHead):
        return both_logits(head, tokens)[:, 1]
    weight = torch.cat([head.end_of_start.weight, head.end_of_token.weight], dim=1)
    both = torch.cat([start.expand_as(tokens), tokens], dim=1)
    return head.end_logit(gelu(both @ weight.T + head.end_of_token.bias)).squeeze(-1)


@parametrize("name", HEADS)
def test_scores_are_those_of_the_definition(name):
    model = make_model(name)
    is_joint = name == "joint"
    hidden = states_of_head(model)
    logits = logits_of(model)
    candidates = candidates_of(model)
    head = model.head
    assert candidates.starts.shape == (2, 3) and candidates.ends.shape == (2, 3 if is_joint else 1, 3)
    for row, (places, true_start) in enumerate(zip(ALLOWED, (6, 0), strict=True)):
        tokens = hidden[row, places]
        starts = start_logits(head, tokens)
        ends = end_logits(head, tokens, hidden[row, true_start])
        for values, expected in ((logits.start[row], starts), (logits.end[row], ends)):
            assert_close(values[places], expected)
            assert values.isneginf().sum() == LENGTH - len(places)
        normalized, order = (starts.log_softmax(0) if is_joint else starts).sort(descending=True)
        assert candidates.starts[row].tolist() == [places[index] for index in order[:3]]
        assert_close(candidates.start_scores[row], normalized[:3])
        for beam, start in enumerate(candidates.starts[row].tolist() if is_joint else [0]):
            of_start = end_logits(head, tokens, hidden[row, start])
            normalized, order = (of_start.log_softmax(0) if is_joint else of_start).sort(descending=True)
            assert candidates.ends[row, beam].tolist() == [places[index] for index in order[:3]]
            assert_close(candidates.end_scores[row, beam], normalized[:3])
        if is_joint:  # the classifier reads [CLS] and where the answer would start
            unanswerable = head.unanswerable(torch.cat([tokens[0], starts.softmax(0) @ tokens])).squeeze()
            assert_close(logits.unanswerable[row], unanswerable)
        else:
            unanswerable = starts[0] + ends[0]
            assert logits.unanswerable is None
        assert_close(candidates.unanswerable[row], unanswerable)


def test_without_a_classifier_there_is_no_score_of_no_answer():
    model = make_model("joint", has_classifier=False)
    assert logits_of(model).unanswerable is None and not candidates_of(model).unanswerable.any()


@parametrize("head", HEADS)
def test_neither_padding_nor_a_wide_beam_changes_a_score(head):
    model = make_model(head, beam_size=20)
    candidates = candidates_of(model)
    narrow = candidates_of(make_model(head, beam_size=3))
    assert_close(candidates.start_scores[:, :3], narrow.start_scores)
    padded = candidates_of(model, **make_batch(length=14))
    assert candidates.starts.shape == (2, 20) and candidates.ends.shape == (2, 20 if head == "joint" else 1, 20)
    assert candidates.start_scores[1].isfinite().tolist() == [True] * 3 + [False] * 17
    assert candidates.end_scores[0, 0].isfinite().tolist() == [True] * 5 + [False] * 15
    assert_close(candidates.start_scores, padded.start_scores)
    assert_close(candidates.end_scores[:, 0], padded.end_scores[:, 0])


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
        logits = logits_of(model)
        hidden = hidden_states(model).float()
    assert not torch.equal(logits.start, logits_of(model).start)  # the encoder does not
    can_be_answer = torch.tensor([[place in places for place in range(LENGTH)] for places in ALLOWED])
    expected = model.head(hidden, can_be_answer, torch.tensor([6, 0]))
    for value, right in zip(logits[:2], expected[:2], strict=True):
        torch.testing.assert_close(value, right, rtol=1e-6, atol=1e-6)
