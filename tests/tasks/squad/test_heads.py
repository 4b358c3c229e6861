"""Both heads against their definitions written out with loops; the loss's numbers and gradients."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from electra.errors import UserError
from electra.tasks.squad.heads import HEADS, Candidates, SpanHead, SpanLogits, SpanModel, step_loss, window_losses
from tests.finetuning.test_heads import make_encoder

WIDTH, LENGTH = 16, 9
CONTEXT = torch.tensor([[4, 8], [3, 5]])
"""Of rows of nine and six tokens."""


def make_batch(length: int = LENGTH) -> dict[str, Tensor]:
    attention_mask = (torch.arange(length) < torch.tensor([[9], [6]])).long()
    ids = torch.randint(5, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    input_ids = torch.zeros((2, length), dtype=torch.long)
    input_ids[:, :9] = ids
    types = (torch.arange(length) >= CONTEXT[:, :1]).long() * attention_mask
    return {
        "input_ids": input_ids * attention_mask, "attention_mask": attention_mask, "token_type_ids": types,
        "context": CONTEXT,
    }  # fmt: skip


def make_model(head: str, *, is_version_2: bool = True, beam_size: int = 3) -> SpanModel:
    torch.manual_seed(2)
    model = SpanModel(make_encoder(), head, is_version_2=is_version_2, beam_size=beam_size).eval()
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def hidden_states(model: SpanModel, batch: dict[str, Tensor]) -> Tensor:
    hidden: Tensor = model.encoder(**{n: v for n, v in batch.items() if n != "context"}).last_hidden_state
    return hidden


def allowed(row: int) -> list[int]:
    return [0, *range(*CONTEXT[row].tolist())]


def logits_of(model: SpanModel, start_positions: list[int], **batch: Tensor) -> SpanLogits:
    found = model(**(batch or make_batch()), start_positions=torch.tensor(start_positions))
    assert isinstance(found, SpanLogits)
    return found


def candidates_of(model: SpanModel, **batch: Tensor) -> Candidates:
    found = Candidates.unpack(model(**(batch or make_batch())).detach().numpy(), model.beam_size)
    return Candidates(*(torch.from_numpy(part) for part in found))


def joint_end(head: SpanHead, token: Tensor, start: Tensor) -> Tensor:
    """One dense layer on the start's vector and the token's, one to a logit."""
    assert head.end_of_start is not None and head.end_of_token is not None and head.end_logit is not None
    weight = torch.cat([head.end_of_start.weight, head.end_of_token.weight], dim=1)
    return head.end_logit(gelu(weight @ torch.cat([start, token]) + head.end_of_token.bias)).squeeze()


@pytest.mark.parametrize("head", HEADS)
def test_starts_and_ends_are_scored_where_an_answer_can_be(head: str) -> None:
    model, batch = make_model(head), make_batch()
    hidden, starts, ends = hidden_states(model, batch), [6, 0], model.head.end
    found = logits_of(model, starts)
    for row in range(2):
        for position in range(LENGTH):
            if position not in allowed(row):
                assert found.start[row, position] == found.end[row, position] == -math.inf
                continue
            token = hidden[row, position]
            torch.testing.assert_close(found.start[row, position], model.head.start(token).squeeze())
            expected = (
                joint_end(model.head, token, hidden[row, starts[row]]) if ends is None else ends(token).squeeze()
            )
            torch.testing.assert_close(found.end[row, position], expected, rtol=1e-4, atol=1e-5)


def test_the_classifier_reads_cls_and_where_the_answer_would_start() -> None:
    model, batch = make_model("joint"), make_batch()
    hidden, found = hidden_states(model, batch), logits_of(model, [6, 0])
    assert found.unanswerable is not None and model.head.unanswerable is not None
    for row in range(2):
        places = allowed(row)
        weights = found.start[row, places].softmax(0)
        mean = sum(weight * hidden[row, place] for weight, place in zip(weights, places, strict=True))
        expected = model.head.unanswerable(torch.cat([hidden[row, 0], mean])).squeeze()
        torch.testing.assert_close(found.unanswerable[row], expected, rtol=1e-4, atol=1e-5)
    assert logits_of(make_model("joint", is_version_2=False), [6, 0]).unanswerable is None
    assert logits_of(make_model("independent"), [6, 0]).unanswerable is None


def test_the_joint_head_looks_at_the_best_ends_of_each_of_the_best_starts() -> None:
    model, batch = make_model("joint", beam_size=3), make_batch()
    hidden, found = hidden_states(model, batch), candidates_of(model)
    assert (found.starts.shape, found.ends.shape) == ((2, 3), (2, 3, 3))
    starts = logits_of(model, [6, 0]).start.detach().log_softmax(-1)
    for row in range(2):
        best = sorted(allowed(row), key=lambda place: -float(starts[row, place]))[:3]
        assert found.starts[row].tolist() == best
        torch.testing.assert_close(found.start_scores[row], starts[row, best])
        for k, start in enumerate(best):
            ends = torch.stack([joint_end(model.head, hidden[row, p], hidden[row, start]) for p in allowed(row)])
            scores, order = ends.log_softmax(0).sort(descending=True)
            assert found.ends[row, k].tolist() == [allowed(row)[i] for i in order[:3]]
            torch.testing.assert_close(found.end_scores[row, k], scores[:3], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.unanswerable, logits_of(model, [6, 0]).unanswerable)


def test_the_independent_head_has_logits_and_cls_for_no_answer() -> None:
    model = make_model("independent", beam_size=2)
    logits, found = logits_of(model, [6, 0]), candidates_of(model)
    assert (found.starts.shape, found.ends.shape) == ((2, 2), (2, 1, 2))
    for row in range(2):
        for scores, places, of in (
            (found.start_scores[row], found.starts[row], logits.start[row]),
            (found.end_scores[row, 0], found.ends[row, 0], logits.end[row]),
        ):
            assert places.tolist() == sorted(allowed(row), key=lambda place: -of[place].item())[:2]
            torch.testing.assert_close(scores, of[places])
    torch.testing.assert_close(found.unanswerable, logits.start[:, 0] + logits.end[:, 0])


@pytest.mark.parametrize("head", HEADS)
def test_a_beam_wider_than_the_window_is_filled_up_with_what_never_wins(head: str) -> None:
    found = candidates_of(make_model(head, beam_size=20))
    assert found.starts.shape == (2, 20) and found.ends.shape == (2, 20 if head == "joint" else 1, 20)
    assert found.start_scores[1].isfinite().tolist() == [True] * 3 + [False] * 17
    assert found.end_scores[0, 0].isfinite().tolist() == [True] * 5 + [False] * 15


@pytest.mark.parametrize("head", HEADS)
def test_more_padding_changes_no_score(head: str) -> None:
    model, longer = make_model(head), make_batch(length=14)
    for some, more in zip(candidates_of(model), candidates_of(model, **longer), strict=True):
        torch.testing.assert_close(some, more, rtol=1e-4, atol=1e-5)
    few, many = logits_of(model, [6, 0]), logits_of(model, [6, 0], **longer)
    torch.testing.assert_close(few.start, many.start[:, :LENGTH], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(few.end, many.end[:, :LENGTH], rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_mean_of_both_ends_and_half_the_classifier_s() -> None:
    start = torch.tensor([[1.0, 2.0, -math.inf], [0.5, 0.0, 0.0]])
    end = torch.tensor([[0.0, 0.0, -math.inf], [3.0, 0.0, 1.0]])
    labels = torch.tensor([[1, 0, 0], [0, 0, 1]])
    ends = [math.log(2), -math.log(math.exp(3) / (math.exp(3) + 1 + math.e))]
    starts = [math.log(1 + math.exp(-1)), -math.log(math.exp(0.5) / (math.exp(0.5) + 2))]
    plain = [(s + e) / 2 for s, e in zip(starts, ends, strict=True)]
    assert window_losses(SpanLogits(start, end, None), labels).tolist() == pytest.approx(plain)
    with_classifier = window_losses(SpanLogits(start, end, torch.tensor([0.7, -0.2])), labels)
    classifier = [math.log(1 + math.exp(0.7)), math.log(1 + math.exp(0.2))]
    assert with_classifier.tolist() == pytest.approx([p + 0.5 * c for p, c in zip(plain, classifier, strict=True)])


def test_a_step_s_loss_is_the_mean_over_its_windows_however_they_are_batched() -> None:
    """Trainer counts labels, of which a window has three."""
    logits = SpanLogits(torch.randn(5, 4), torch.randn(5, 4), torch.randn(5))
    labels = torch.tensor([[1, 2, 0], [0, 0, 1], [3, 3, 0], [2, 3, 0], [0, 0, 1]])
    whole = step_loss(logits, labels)
    torch.testing.assert_close(whole, window_losses(logits, labels).mean())
    parts = [
        step_loss(SpanLogits(*(values[rows] for values in logits if values is not None)), labels[rows], labels.numel())
        for rows in (slice(0, 2), slice(2, 5))
    ]
    torch.testing.assert_close(sum(parts), whole)


def test_dropout_stands_in_front_of_the_head_alone() -> None:
    """The original has none there; the encoder keeps its own."""
    encoder = make_encoder(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = SpanModel(encoder, "joint", is_version_2=True, beam_size=2).train()
    first, second = (logits_of(model, [6, 0]).start for _ in range(2))
    assert torch.equal(first, second)
    model.dropout.p = 0.5
    assert not torch.equal(first, logits_of(model, [6, 0]).start)


def test_the_loss_s_gradients_are_probabilities_minus_the_truth() -> None:
    start = torch.tensor([[1.0, 2.0, -math.inf, 0.0]], requires_grad=True)
    end = torch.tensor([[0.0, 1.0, -math.inf, 0.5]], requires_grad=True)
    unanswerable = torch.tensor([0.3], requires_grad=True)
    window_losses(SpanLogits(start, end, unanswerable), torch.tensor([[1, 3, 0]])).sum().backward()
    right_start, right_end = torch.tensor([[0.0, 1, 0, 0]]), torch.tensor([[0.0, 0, 0, 1]])
    assert start.grad is not None and end.grad is not None and unanswerable.grad is not None
    torch.testing.assert_close(start.grad, (start.detach().softmax(-1) - right_start) / 2)
    torch.testing.assert_close(end.grad, (end.detach().softmax(-1) - right_end) / 2)
    torch.testing.assert_close(unanswerable.grad, 0.5 * unanswerable.detach().sigmoid())


@pytest.mark.parametrize("head", HEADS)
def test_every_weight_of_the_model_gets_a_gradient_and_none_is_nan(head: str) -> None:
    model = make_model(head).train()
    logits = logits_of(model, [6, 0])
    window_losses(logits, torch.tensor([[6, 7, 0], [0, 0, 1]])).mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        shifts_all = name in ("head.start.bias", "head.end.bias", "head.end_logit.bias") or name.endswith("key.bias")
        is_free = shifts_all or name.startswith("encoder.embeddings.")
        assert is_free or parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("head", HEADS)
def test_the_head_computes_in_float32_under_autocast(head: str) -> None:
    model, batch = make_model(head), make_batch()
    with torch.autocast("cpu", torch.bfloat16):
        logits, found = logits_of(model, [6, 0]), candidates_of(model)
        hidden = hidden_states(model, batch).float()
    assert not torch.equal(logits.start, logits_of(model, [6, 0]).start)  # the encoder does not
    positions = torch.arange(LENGTH)
    can_be_answer = (positions >= CONTEXT[:, :1]) & (positions < CONTEXT[:, 1:]) | (positions == 0)
    expected = model.head(hidden, can_be_answer, torch.tensor([6, 0]))
    of_candidates = model.head.find_candidates(hidden, can_be_answer, 3)
    for value, right in zip((*logits, *found), (*expected, *of_candidates), strict=True):
        assert (value is None) == (right is None)
        if value is not None:
            torch.testing.assert_close(value, right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("head", HEADS)
def test_weights_are_drawn_as_the_encoder_s_from_the_random_state(head: str) -> None:
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(SpanHead(head, 200, is_version_2=True, std=0.5))
    first, again, other = (dict(h.named_parameters()) for h in drawn)
    for name, value in first.items():
        assert torch.equal(value, again[name])
        if name.endswith("bias"):
            assert not value.any()
        else:
            assert value.std().item() == pytest.approx(0.5, rel=0.2) and not torch.equal(value, other[name])


def test_an_unknown_head_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="'xlnet'; choose from joint independent"):
        SpanModel(make_encoder(), "xlnet", is_version_2=True, beam_size=2)
