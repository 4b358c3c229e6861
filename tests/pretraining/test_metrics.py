"""Held-out metrics against plain loops over tokens, over batches put together as Trainer does it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers.trainer_pt_utils import nested_concat

from electra.model.joint import ElectraForJointPretraining, ElectraPretrainingOutput
from electra.pretraining.metrics import (
    PADDING,
    Field,
    area_under_curve,
    evaluation_metrics,
    token_records,
    unigram_metrics,
)

Batch = tuple[Tensor, Tensor, Any]
"""input_ids (B, L), attention_mask (B, L), the model's output."""

WORDS = 6
"""Ids that occur, from 5 on: few, so that untrained predictions and samples are right now and then."""


def judged_batches(pair: ElectraForJointPretraining, *shapes: tuple[int, int], judged: bool = True) -> list[Batch]:
    """Outputs of a pair on random batches of (rows, length); rows end in padding of random length."""
    random = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    batches = []
    for rows, length in shapes:
        ends = torch.randint(length // 2, length + 1, (rows, 1), generator=random)
        ends[0] = length
        columns = torch.arange(length)
        attention_mask = (columns < ends).long()
        input_ids = torch.randint(5, 5 + WORDS, (rows, length), generator=random)
        input_ids = input_ids.masked_fill(columns == 0, 2).masked_fill(columns == ends - 1, 3)
        input_ids = input_ids.masked_fill(attention_mask == 0, 0)
        with torch.no_grad():
            output = pair(input_ids, attention_mask)
        if judged:
            # An untrained discriminator says much the same of all tokens; here it decides both ways, and ties occur.
            noise = torch.randn(rows, length, generator=random)
            output.discriminator_logits = (noise + output.is_replaced).round(decimals=1)
        batches.append((input_ids, attention_mask, output))
    return batches


def records_of(batches: list[Batch]) -> np.ndarray:
    """Records of all batches, put together as Trainer's evaluation loop does: padded to one length with -100."""
    records = None
    for input_ids, attention_mask, output in batches:
        new = token_records(input_ids, attention_mask, output)
        assert new.dtype == torch.float32 and new.shape == (*input_ids.shape, len(Field))
        records = new if records is None else nested_concat(records, new, padding_index=-100)
    assert records is not None
    return records.numpy()


def mean(values: list[Any]) -> float:
    return sum(float(v) for v in values) / len(values) if values else math.nan


def looped_metrics(batches: list[Batch], discriminator_weight: float) -> dict[str, float]:
    """Every metric from its definition, token by token, without records."""
    nll, is_right, is_mask, is_sample_right = [], [], [], []
    bce, labels, logits = [], [], []
    for input_ids, attention_mask, output in batches:
        for row, slot in output.mlm_mask.nonzero().tolist():
            original = input_ids[row, output.mlm_positions[row, slot]]
            nll.append(output.generator_nll[row, slot])
            is_right.append(output.predicted_ids[row, slot] == original)
            is_sample_right.append(output.sampled_ids[row, slot] == original)
            is_mask.append(bool(output.is_mask_token[row, slot]))
        for row, column in attention_mask.nonzero().tolist():
            bce.append(output.main_nll[row, column])
            labels.append(bool(output.corrupted_input_ids[row, column] != input_ids[row, column]))
            logits.append(float(output.discriminator_logits[row, column]))
    pairs = list(zip(labels, [logit >= 0 for logit in logits], strict=True))
    tp, fp, fn, tn = (pairs.count(pair) for pair in ((True, True), (False, True), (True, False), (False, False)))
    assert min(tp, fp, fn, tn) > 0
    positives = [logit for logit, label in zip(logits, labels, strict=True) if label]
    negatives = [logit for logit, label in zip(logits, labels, strict=True) if not label]
    wins = sum((p > n) + 0.5 * (p == n) for p in positives for n in negatives)
    assert any(p == n for p in positives for n in negatives)
    return {
        "loss": mean(nll) + discriminator_weight * mean(bce),
        "generator_loss": mean(nll),
        "masked_accuracy": mean(is_right),
        "masked_accuracy_mask_token": mean([r for r, m in zip(is_right, is_mask, strict=True) if m]),
        "masked_accuracy_kept_token": mean([r for r, m in zip(is_right, is_mask, strict=True) if not m]),
        "sampled_accuracy": mean(is_sample_right),
        "replaced_rate": mean(labels),
        "discriminator_loss": mean(bce),
        "discriminator_accuracy": (tp + tn) / len(pairs),
        "discriminator_precision": tp / (tp + fp),
        "discriminator_recall": tp / (tp + fn),
        "discriminator_f1": 2 * tp / (2 * tp + fp + fn),
        "discriminator_mcc": (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)),
        "discriminator_auc": wins / (len(positives) * len(negatives)),
        "tokens": len(pairs),
    }


@pytest.mark.parametrize("shapes", [[(3, 20)], [(4, 12), (2, 33), (5, 7)], [(1, 30), (6, 30), (1, 5)]], ids=str)
def test_metrics_are_those_of_a_loop_over_all_tokens(
    make_pair: Callable[..., ElectraForJointPretraining], shapes: list[tuple[int, int]]
) -> None:
    pair = make_pair(mlm_probability=0.4, mlm_replacement_probability=0.6)
    with torch.no_grad():
        pair.generator.generator_lm_head.bias[5 : 5 + WORDS] += 10.0
    batches = judged_batches(pair, *shapes)
    metrics = evaluation_metrics(records_of(batches), discriminator_weight=50.0)
    assert metrics == pytest.approx(looped_metrics(batches, 50.0), rel=1e-5)
    assert 0 < metrics["masked_accuracy"] < 1


def test_metrics_weigh_tokens_and_not_batches(make_pair: Callable[..., ElectraForJointPretraining]) -> None:
    batches = judged_batches(make_pair(mlm_probability=0.4), (1, 6), (8, 36))
    together = evaluation_metrics(records_of(batches), 50.0)
    apart = [evaluation_metrics(records_of([batch]), 50.0) for batch in batches]
    assert together["tokens"] == sum(m["tokens"] for m in apart)
    weighted = sum(m["tokens"] * m["discriminator_loss"] for m in apart) / together["tokens"]
    assert together["discriminator_loss"] == pytest.approx(weighted, rel=1e-6)
    assert abs(together["discriminator_loss"] - sum(m["discriminator_loss"] for m in apart) / 2) > 1e-3


def test_the_loss_is_the_one_the_model_computes(make_pair: Callable[..., ElectraForJointPretraining]) -> None:
    batches = judged_batches(make_pair(discriminator_weight=7.0), (6, 30))
    metrics = evaluation_metrics(records_of(batches), 7.0)
    output = batches[0][2]
    for name in ("loss", "generator_loss", "discriminator_loss"):
        assert metrics[name] == pytest.approx(output[name.replace("discriminator", "main")].item(), rel=1e-5)


def one_row(
    input_ids: list[int],
    positions: list[int],
    is_chosen: list[bool],
    sampled_ids: list[int],
    *,
    predicted_ids: list[int] | None = None,
    logits: list[float] | None = None,
) -> np.ndarray:
    """Records of one row without padding; every chosen token was masked."""
    originals, slots = torch.tensor([input_ids]), torch.tensor([positions])
    chosen, sampled = torch.tensor([is_chosen]), torch.tensor([sampled_ids])
    corrupted = originals.scatter(1, slots, torch.where(chosen, sampled, originals.gather(1, slots)))
    output = ElectraPretrainingOutput(
        mlm_positions=slots,
        mlm_mask=chosen,
        is_mask_token=chosen,
        generator_nll=torch.full(slots.shape, 2.0),
        predicted_ids=torch.tensor([predicted_ids or sampled_ids]),
        sampled_ids=sampled,
        corrupted_input_ids=corrupted,
        is_replaced=corrupted != originals,
        main_nll=torch.full(originals.shape, 0.5),
        discriminator_logits=torch.tensor([logits or [0.0] * len(input_ids)]),
    )
    return token_records(originals, torch.ones_like(originals), output).numpy()


def test_ids_up_to_200_000_are_told_apart() -> None:
    records = one_row(
        [199_999, 199_998, 65_537, 7],
        [0, 1, 2],
        [True, True, True],
        [199_998, 199_998, 65_536],
        predicted_ids=[199_999, 199_997, 65_537],
    )
    metrics = evaluation_metrics(records, 50.0)
    assert metrics["masked_accuracy"] == pytest.approx(2 / 3)
    assert metrics["sampled_accuracy"] == pytest.approx(1 / 3)
    assert metrics["replaced_rate"] == 2 / 4
    counts = np.zeros(200_000, dtype=np.int64)
    counts[199_998] = 10**6
    assert unigram_metrics(records, counts)["masked_accuracy"] == pytest.approx(1 / 3)


def test_slots_that_hold_no_chosen_position_leave_no_trace() -> None:
    records = one_row([2, 10, 11, 3], [1, 3, 0], [True, False, False], [12, 40, 41])
    assert records[0, :, Field.IS_CHOSEN].tolist() == [0, 1, 0, 0]
    assert records[0, :, Field.GENERATOR_NLL].tolist() == [0, 2, 0, 0]
    assert records[0, :, Field.SAMPLED_ID].tolist() == [0, 12, 0, 0]
    assert records[0, :, Field.CORRUPTED_ID].tolist() == [2, 12, 11, 3]
    assert records[0, :, Field.ORIGINAL_ID].tolist() == [2, 10, 11, 3]


def test_padding_is_marked_and_counts_nowhere(make_pair: Callable[..., ElectraForJointPretraining]) -> None:
    batches = judged_batches(make_pair(), (3, 20))
    records = records_of(batches)
    attention_mask = batches[0][1].bool().numpy()
    assert np.array_equal(records[..., Field.ORIGINAL_ID] == PADDING, ~attention_mask)
    spoiled = records.copy()
    spoiled[~attention_mask, 1:] = np.nan
    assert evaluation_metrics(spoiled, 50.0) == pytest.approx(evaluation_metrics(records, 50.0), rel=0, nan_ok=True)


def test_metrics_that_are_not_defined_are_nan_and_the_others_are_there() -> None:
    nothing_kept = evaluation_metrics(one_row([2, 10, 11, 3], [1], [True], [12], logits=[-1.0, 1.0, -1.0, -1.0]), 50.0)
    assert math.isnan(nothing_kept.pop("masked_accuracy_kept_token"))
    assert not any(math.isnan(value) for value in nothing_kept.values())
    assert nothing_kept["discriminator_f1"] == nothing_kept["discriminator_mcc"] == 1.0

    nothing_replaced = evaluation_metrics(one_row([2, 10, 11, 3], [1], [True], [10], logits=[-1.0] * 4), 50.0)
    assert math.isnan(nothing_replaced["discriminator_auc"])
    assert nothing_replaced["discriminator_accuracy"] == 1.0 and nothing_replaced["replaced_rate"] == 0.0

    nothing_chosen = evaluation_metrics(one_row([2, 3], [1], [False], [12]), 50.0)
    undefined = {name for name, value in nothing_chosen.items() if math.isnan(value)}
    generator_metrics = {"generator_loss", "masked_accuracy", "masked_accuracy_mask_token"}
    generator_metrics |= {"masked_accuracy_kept_token", "sampled_accuracy"}
    assert undefined == {"loss", "discriminator_auc", *generator_metrics}


def test_a_discriminator_that_suspects_nothing_has_no_precision_by_the_usual_convention() -> None:
    metrics = evaluation_metrics(one_row([2, 10, 11, 3], [1], [True], [12], logits=[-1.0] * 4), 50.0)
    for name in ("precision", "recall", "f1", "mcc"):
        assert metrics[f"discriminator_{name}"] == 0.0
    assert metrics["discriminator_accuracy"] == 0.75 and metrics["discriminator_auc"] == 0.5


def test_a_logit_of_zero_counts_as_replaced() -> None:
    metrics = evaluation_metrics(one_row([2, 10, 11, 3], [1], [True], [12], logits=[-1.0, 0.0, -1.0, -1.0]), 50.0)
    assert metrics["discriminator_accuracy"] == metrics["discriminator_recall"] == 1.0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_no_numbers_give_no_auc_and_no_error(value: float) -> None:
    records = one_row([2, 10, 11, 3], [1], [True], [12], logits=[value, 1.0, -1.0, -1.0])
    assert math.isnan(evaluation_metrics(records, 50.0)["discriminator_auc"])


def test_the_area_under_the_curve_counts_ties_half() -> None:
    is_replaced = np.array([True, True, False, False])
    assert area_under_curve(is_replaced, np.array([2.0, 1.0, 1.0, 0.0])) == 3.5 / 4
    assert math.isnan(area_under_curve(is_replaced[:2], np.array([2.0, 1.0])))


def test_unigram_metrics_worked_out_by_hand() -> None:
    # Frequencies with one added: 4/20, 1/20, 5/20, 10/20 for ids 0 to 3.
    counts = np.array([3, 0, 4, 9])
    first = one_row([3, 2, 0, 3], [0, 1], [True, True], [1, 2])  # 3 -> 1, 2 -> 2
    second = one_row([2, 0], [1], [True], [1])  # 0 -> 1
    padded = np.full((1, 4, len(Field)), PADDING, dtype=np.float32)
    padded[:, :2] = second
    metrics = unigram_metrics(np.concatenate([first, padded]), counts)
    # asked for 3, 2 and 0; always answers 3
    assert metrics == pytest.approx(
        {
            "generator_loss": (math.log(20 / 10) + math.log(20 / 5) + math.log(20 / 4)) / 3,
            "masked_accuracy": 1 / 3,
            "sampled_accuracy": (10 + 5 + 4) / 20 / 3,
            # replaced: 1 and 1, the rarest of all; not replaced: 2, 0, 3 and 2
            "discriminator_auc": 1.0,
        }
    )
    # one replaced by the second rarest (0), against originals 2, 3, 1: suspected more than two of the three
    records = one_row([3, 2, 3, 1], [0], [True], [0])
    assert unigram_metrics(records, counts)["discriminator_auc"] == pytest.approx(2 / 3)


def test_ids_that_are_no_token_have_no_frequency() -> None:
    records = one_row([3, 2, 0, 3], [0, 1], [True, True], [1, 2])
    without = unigram_metrics(records, np.array([3, 0, 4, 9]))
    assert unigram_metrics(records, np.array([3, 0, 4, 9, 0, 0, 0]), vocabulary_gaps=[[4, 7]]) == without


def test_special_tokens_are_the_least_suspicious_to_token_frequencies() -> None:
    counts = np.array([0, 5, 9])  # id 0 is special: it stands in no corpus
    records = one_row([0, 2, 2, 0], [1], [True], [1])  # 2 -> 1, framed by special tokens
    assert unigram_metrics(records, counts, special_token_ids=[0])["discriminator_auc"] == 1.0
    assert unigram_metrics(records, counts)["discriminator_auc"] == pytest.approx(1 / 3)


# ---- other objectives


def looped_restoration(batches: list[Batch], sees_samples: bool) -> dict[str, float]:
    """Metrics of a main network that predicts originals, token by token."""
    nll, right, kinds = [], [], []
    for input_ids, _, output in batches:
        for row, slot in output.mlm_mask.nonzero().tolist():
            position = output.mlm_positions[row, slot]
            original, seen = input_ids[row, position], output.corrupted_input_ids[row, position]
            nll.append(output.main_nll[row, position])
            right.append(bool(output.mlm_predictions[row, position] == original))
            is_mask = seen == 4 and bool(output.is_mask_token[row, slot]) and not sees_samples
            kinds.append("mask" if is_mask else "kept" if seen == original else "other")
    by_kind = {kind: [r for r, k in zip(right, kinds, strict=True) if k == kind] for kind in ("mask", "other", "kept")}
    return {
        "mlm_loss": mean(nll),
        "mlm_accuracy": mean(right),
        **({} if sees_samples else {"mlm_accuracy_mask_token": mean(by_kind["mask"])}),
        "mlm_accuracy_other_token": mean(by_kind["other"]),
        "mlm_accuracy_kept_token": mean(by_kind["kept"]),
    }


@pytest.mark.parametrize("objective", ["mlm", "replace_mlm", "all_tokens_mlm"])
def test_metrics_of_a_masked_language_model_are_those_of_a_loop_over_all_tokens(
    make_pair: Callable[..., ElectraForJointPretraining], objective: str
) -> None:
    shares = {"mlm_replacement_probability": 0.5, "mlm_random_probability": 0.2, "mlm_probability": 0.4}
    pair = make_pair(objective=objective, **shares)
    with torch.no_grad():
        for network in (pair.generator, pair.discriminator):
            if network is not None:
                network.generator_lm_head.bias[5 : 5 + WORDS] += 10.0
        if pair.copy_gate is not None:
            pair.copy_gate.weight.mul_(5.0)
    batches = judged_batches(pair, (4, 20), (6, 33), judged=False)
    metrics = evaluation_metrics(records_of(batches), 3.0, objective)
    expected = looped_restoration(batches, sees_samples=objective != "mlm")
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert all(0 < value < 1 for name, value in expected.items() if "accuracy" in name)
    trained = metrics["mlm_loss"]
    if objective == "all_tokens_mlm":
        real = [(batch, *cell) for batch in batches for cell in batch[1].nonzero().tolist()]
        trained = mean([output.main_nll[row, t] for (_, _, output), row, t in real])
        assert metrics["all_tokens_loss"] == pytest.approx(trained, rel=1e-5)
        right = [output.mlm_predictions[row, t] == ids[row, t] for (ids, _, output), row, t in real]
        assert metrics["all_tokens_accuracy"] == pytest.approx(mean(right), rel=1e-5)
        labels = np.array([bool(output.is_replaced[row, t]) for (_, _, output), row, t in real])
        gate = np.array([float(output.discriminator_logits[row, t]) for (_, _, output), row, t in real])
        assert metrics["copy_gate_accuracy"] == pytest.approx(((gate >= 0) == labels).mean())
        assert metrics["copy_gate_auc"] == pytest.approx(area_under_curve(labels, gate))
        assert metrics["copy_gate_auc"] != 0.5
    generator_loss = metrics.get("generator_loss")
    assert (generator_loss is None) == (objective == "mlm")
    assert metrics["loss"] == pytest.approx(trained if generator_loss is None else generator_loss + 3 * trained)
    assert not any(name.startswith("discriminator") for name in metrics)


def test_tokens_kept_for_the_generator_are_neither_masked_nor_random(
    make_pair: Callable[..., ElectraForJointPretraining],
) -> None:
    pair = make_pair(mlm_replacement_probability=0.3, mlm_random_probability=0.4, mlm_probability=0.5)
    batches = judged_batches(pair, (8, 30), judged=False)
    with torch.no_grad():  # a generator that repeats what it sees is right at the kept positions alone
        for _, _, output in batches:
            originals = batches[0][0].gather(1, output.mlm_positions)
            output.predicted_ids = torch.where(output.is_kept_token, originals, originals + 1)
    metrics = evaluation_metrics(records_of(batches), 50.0)
    assert metrics["masked_accuracy_kept_token"] == 1.0 and metrics["masked_accuracy_mask_token"] == 0.0
    assert 0.2 < metrics["masked_accuracy"] < 0.45


def test_electra_15_is_measured_at_the_chosen_positions(
    make_pair: Callable[..., ElectraForJointPretraining],
) -> None:
    pair = make_pair(objective="electra_15", mlm_probability=0.4)
    assert pair.generator is not None
    with torch.no_grad():
        pair.generator.generator_lm_head.bias[5 : 5 + WORDS] += 10.0
    batches = judged_batches(pair, (6, 30))
    records = records_of(batches)
    records[..., Field.DISCRIMINATOR_LOGIT] *= records[..., Field.IS_CHOSEN] * 2 - 1  # turned round elsewhere
    metrics, everywhere = (evaluation_metrics(records, 50.0, name) for name in ("electra_15", "electra"))
    chosen = records[records[..., Field.IS_CHOSEN] == 1]
    labels, logits = chosen[:, Field.IS_REPLACED] == 1, chosen[:, Field.DISCRIMINATOR_LOGIT]
    assert metrics["discriminator_accuracy"] == pytest.approx(((logits >= 0) == labels).mean())
    assert metrics["discriminator_auc"] == pytest.approx(area_under_curve(labels, logits))
    assert metrics["discriminator_auc"] != everywhere["discriminator_auc"]
    assert metrics["discriminator_loss"] == pytest.approx(batches[0][2].main_loss.item(), rel=1e-5)
    assert metrics["loss"] == pytest.approx(batches[0][2].loss.item(), rel=1e-5)
    assert metrics["replaced_rate"] == everywhere["replaced_rate"]


def test_frequencies_answer_what_the_objective_asks() -> None:
    counts = np.array([3, 0, 4, 9])
    records = one_row([3, 2, 0, 3], [0, 1], [True, True], [1, 2])
    electra = unigram_metrics(records, counts)
    asked = {name: electra[name] for name in ("generator_loss", "masked_accuracy", "sampled_accuracy")}
    mlm = {"mlm_loss": electra["generator_loss"], "mlm_accuracy": electra["masked_accuracy"]}
    assert unigram_metrics(records, counts, objective="mlm") == mlm
    assert unigram_metrics(records, counts, objective="replace_mlm") == {**asked, **mlm}
    with_gate = {**asked, **mlm, "copy_gate_auc": electra["discriminator_auc"]}
    assert unigram_metrics(records, counts, objective="all_tokens_mlm") == with_gate
    # Of the chosen ones 1 is the rarest and replaced, 2 is not; elsewhere a rarer one may stand.
    records = one_row([3, 2, 1, 3], [0, 1], [True, True], [0, 2])
    assert unigram_metrics(records, counts)["discriminator_auc"] == pytest.approx(2 / 3)
    assert unigram_metrics(records, counts, objective="electra_15")["discriminator_auc"] == 1.0


def test_the_entropy_of_an_adversarial_generator_is_the_mean_over_the_chosen_positions(
    make_pair: Callable[..., ElectraForJointPretraining],
) -> None:
    pair = make_pair(objective="adversarial", mlm_probability=0.3)
    batches = judged_batches(pair, (4, 20), (6, 33))
    metrics = evaluation_metrics(records_of(batches), 3.0, "adversarial")
    entropies = [e for _, _, output in batches for e in output.generator_entropy[output.mlm_mask].tolist()]
    assert metrics["generator_entropy"] == pytest.approx(mean(entropies), rel=1e-5)
    assert 0 < metrics["generator_entropy"] < math.log(pair.config.discriminator.vocab_size)
    expected = looped_metrics(batches, 3.0)  # all others are electra's, the total loss too
    assert {name: value for name, value in metrics.items() if name != "generator_entropy"} == pytest.approx(expected)


def test_without_a_generator_network_what_it_would_have_said_is_not_measured() -> None:
    records = one_row([3, 2, 0, 3], [0, 1], [True, True], [1, 2], logits=[1.0, -1.0, -1.0, -1.0])
    electra = evaluation_metrics(records, 50.0)
    uniform = evaluation_metrics(records, 50.0, uniform_generator=True)
    kept = {name for name in electra if name.startswith("discriminator") or name in ("replaced_rate", "tokens")}
    assert uniform == {**{name: electra[name] for name in kept}, "loss": electra["discriminator_loss"]}
    counts = np.array([3, 0, 4, 9])
    assert list(unigram_metrics(records, counts, uniform_generator=True)) == ["discriminator_auc"]
    restored = evaluation_metrics(records, 50.0, "replace_mlm", uniform_generator=True)
    assert "mlm_accuracy_mask_token" not in restored and restored["loss"] == restored["mlm_loss"]
