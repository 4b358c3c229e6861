"""Held-out metrics against plain loops over tokens, over batches put together as Trainer does it; their table."""

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import torch
from pytest import approx
from transformers.trainer_pt_utils import nested_concat

from electra.core.networks import ElectraPretrainingOutput
from electra.core.objectives import OBJECTIVES
from electra.data.held_out import Documents
from electra.pretraining import metrics as metrics_module
from electra.pretraining.finish import results_table
from electra.pretraining.metrics import (
    PADDING,
    PRETRAINING_METRICS,
    Field,
    evaluation_metrics,
    generator_verdict,
    metric_rows,
    metrics_of_corrupted,
    token_counts,
    token_records,
    unigram_metrics,
)
from tests.conftest import refused
from tests.core.helpers import JUDGES
from tests.helpers import parametrize

WORDS = 6
"""Ids that occur, from 5 on: few, so that untrained predictions and samples are right now and then."""


def judged_batches(pair, *shapes):
    """Outputs of a pair on random batches of (rows, length); rows end in padding of random length."""
    with torch.no_grad():
        for network in (pair.generator, pair.discriminator):
            if hasattr(network, "generator_lm_head"):  # it predicts the words that occur, so it is right now and then
                network.generator_lm_head.bias[5 : 5 + WORDS] += 10.0
        if pair.copy_gate is not None:
            pair.copy_gate.weight.mul_(5.0)
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
        if output.discriminator_logits is not None:
            # An untrained network says much the same of all tokens; here it decides both ways, and ties occur.
            noise = torch.randn(rows, length, generator=random)
            output.discriminator_logits = (noise + output.is_replaced).round(decimals=1)
        batches.append((input_ids, attention_mask, output))
    return batches


def records_of(batches):
    """Records of all batches, put together as Trainer's evaluation loop does: padded to one length with -100."""
    records = None
    for input_ids, attention_mask, output in batches:
        new = token_records(input_ids, attention_mask, output)
        assert new.dtype == torch.float32 and new.shape == (*input_ids.shape, len(Field))
        records = new if records is None else nested_concat(records, new, padding_index=-100)
    return records.numpy()


BY_SLOT = ("generator_nll", "predicted_ids", "sampled_ids", "is_mask_token", "generator_entropy")
BY_TOKEN = ("main_nll", "discriminator_logits", "mlm_predictions", "corrupted_input_ids", "is_replaced")


def values_of(batches):
    """Outputs at the chosen positions, and at all real tokens, collected one by one."""
    chosen = defaultdict(list)
    tokens = defaultdict(list)
    for input_ids, attention_mask, output in batches:
        places = [
            (row, int(output.mlm_positions[row, slot]), slot) for row, slot in output.mlm_mask.nonzero().tolist()
        ]
        for name in (name for name in BY_SLOT if name in output):
            chosen[name] += [float(output[name][row, slot]) for row, _, slot in places]
        for values, cells in ((chosen, places), (tokens, attention_mask.nonzero().tolist())):
            values["original"] += [int(input_ids[row, column]) for row, column, *_ in cells]
            for name in (name for name in BY_TOKEN if name in output):
                values[name] += [float(output[name][row, column]) for row, column, *_ in cells]
    return tuple({name: np.array(column) for name, column in values.items()} for values in (chosen, tokens))


def looped_detection(tokens):
    """Metrics of decisions at logit 0 on what was replaced, by pairs."""
    labels = tokens["is_replaced"] == 1
    logits = tokens["discriminator_logits"]
    pairs = list(zip(labels.tolist(), (logits >= 0).tolist(), strict=True))
    tp, fp, fn, tn = (pairs.count(pair) for pair in ((True, True), (False, True), (True, False), (False, False)))
    assert min(tp, fp, fn, tn) > 0
    wins = [
        (of_replaced > of_original) + 0.5 * (of_replaced == of_original)
        for of_replaced in logits[labels]
        for of_original in logits[~labels]
    ]
    return {
        "accuracy": (tp + tn) / len(pairs),
        "precision": tp / (tp + fp),
        "recall": tp / (tp + fn),
        "f1": 2 * tp / (2 * tp + fp + fn),
        "mcc": (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)),
        "auc": float(np.mean(wins)),
    }


def looped_metrics(batches, objective, weight):
    """Every metric of an objective from its definition, without records."""
    spec = OBJECTIVES[objective]
    chosen, tokens = values_of(batches)
    metrics = {"tokens": len(tokens["original"])}
    if spec.has_generator:
        is_right = chosen["predicted_ids"] == chosen["original"]
        is_mask = chosen["is_mask_token"] == 1
        metrics |= {
            "generator_loss": chosen["generator_nll"].mean(),
            "masked_accuracy": is_right.mean(),
            "masked_accuracy_mask_token": is_right[is_mask].mean(),
            "generator_loss_mask_token": chosen["generator_nll"][is_mask].mean(),
            "sampled_accuracy": (chosen["sampled_ids"] == chosen["original"]).mean(),
            "replaced_rate": tokens["is_replaced"].mean(),
        }
        if not spec.is_energy_based:  # whose samples are noise, equal to the text or not
            assert np.array_equal(tokens["is_replaced"] == 1, tokens["corrupted_input_ids"] != tokens["original"])
    if spec.is_adversarial:
        metrics["generator_entropy"] = chosen["generator_entropy"].mean()
    if spec.finds_replaced:
        judged = tokens if spec.at_all_tokens else chosen
        metrics["discriminator_loss"] = main = judged["main_nll"].mean()
        detected = looped_detection(judged)
        names = detected if spec.has_threshold else ("auc",)
        metrics |= {f"discriminator_{name}": detected[name] for name in names}
    else:
        metrics["mlm_loss"] = main = chosen["main_nll"].mean()
        is_right = chosen["mlm_predictions"] == chosen["original"]
        metrics["mlm_accuracy"] = is_right.mean()
        if not (spec.has_generator or spec.is_causal):  # the others see samples, or no chosen token
            is_mask = chosen["is_mask_token"] == 1
            metrics["mlm_loss_mask_token"] = chosen["main_nll"][is_mask].mean()
            metrics["mlm_accuracy_mask_token"] = is_right[is_mask].mean()
    if spec.has_copy_gate:
        metrics["all_tokens_loss"] = main = tokens["main_nll"].mean()
        metrics["all_tokens_accuracy"] = (tokens["mlm_predictions"] == tokens["original"]).mean()
        metrics |= {f"copy_gate_{name}": looped_detection(tokens)[name] for name in ("accuracy", "auc")}
    metrics["loss"] = metrics["generator_loss"] + weight * main if spec.has_generator else main
    return metrics


@parametrize("objective", OBJECTIVES)
def test_metrics_are_those_of_a_loop_over_all_tokens(make_pair, objective):
    shares = {"mlm_probability": 0.4, "mlm_replacement_probability": 0.5, "mlm_random_probability": 0.2}
    batches = judged_batches(make_pair(objective=objective, **shares, discriminator_weight=7.0), (6, 33), (4, 20))
    metrics = evaluation_metrics(records_of(batches), 7.0, OBJECTIVES[objective])
    assert metrics == approx(looped_metrics(batches, objective, 7.0), rel=1e-5)
    varied = {"masked_accuracy", "sampled_accuracy", "discriminator_accuracy", "mlm_accuracy", "all_tokens_accuracy"}
    assert all(0 < metrics[name] < 1 for name in varied & metrics.keys())
    assert [name for name, _ in metric_rows(OBJECTIVES[objective])] == [
        name for name in PRETRAINING_METRICS if name in metrics
    ]
    assert metrics.keys() - PRETRAINING_METRICS == {"loss", "tokens"}
    if not OBJECTIVES[objective].is_adversarial:
        first = evaluation_metrics(records_of(batches[:1]), 7.0, OBJECTIVES[objective])
        assert first["loss"] == approx(batches[0][2].loss.item(), rel=1e-5)


@parametrize("objective", JUDGES)
def test_metrics_of_a_corrupted_text_are_of_all_its_tokens(make_pair, objective):
    batches = judged_batches(make_pair(objective=objective, mlm_probability=0.4), (6, 33), (4, 20))
    _, tokens = values_of(batches)
    metrics = metrics_of_corrupted(records_of(batches), OBJECTIVES[objective])
    detected = {f"discriminator_{name}": value for name, value in looped_detection(tokens).items()}
    expected = {
        **{name: value for name, value in detected.items() if name in metrics},
        "discriminator_loss": tokens["main_nll"].mean(),
        "replaced_rate": tokens["is_replaced"].mean(),
        "tokens": len(tokens["original"]),
    }
    assert metrics == approx(expected, rel=1e-5)
    assert metrics.keys() - {"tokens"} <= evaluation_metrics(records_of(batches), 1.0, OBJECTIVES[objective]).keys()


def test_answers_without_a_threshold_decide_nothing():
    records = one_row([2, 10, 11, 3], [1], [True], [12], logits=[5.0, 9.0, 5.0, 5.0])
    spec = replace(OBJECTIVES["electra"], answers_probability=False, has_threshold=False)
    for metrics in (evaluation_metrics(records, 50.0, spec), metrics_of_corrupted(records, spec)):
        detected = {name for name in metrics if name.startswith("discriminator_")}
        assert detected == {"discriminator_loss", "discriminator_auc"} and metrics["discriminator_auc"] == 1.0
    assert "discriminator_accuracy" not in dict(metric_rows(spec))
    with_threshold = replace(spec, has_threshold=True)
    assert evaluation_metrics(records, 50.0, with_threshold)["discriminator_recall"] == 1.0
    assert "discriminator_accuracy" in dict(metric_rows(with_threshold))


def one_row(
    input_ids, positions, is_chosen, sampled_ids, *, predicted_ids=None, logits=None, is_masked=None, loss=2.0
):
    """Records of one row without padding; every chosen token was masked unless `is_masked` says otherwise."""
    originals = torch.tensor([input_ids])
    slots = torch.tensor([positions])
    chosen = torch.tensor([is_chosen])
    sampled = torch.tensor([sampled_ids])
    corrupted = originals.scatter(1, slots, torch.where(chosen, sampled, originals.gather(1, slots)))
    output = ElectraPretrainingOutput(
        mlm_positions=slots,
        mlm_mask=chosen,
        is_mask_token=chosen if is_masked is None else torch.tensor([is_masked]),
        generator_nll=torch.full(slots.shape, loss),
        predicted_ids=torch.tensor([predicted_ids or sampled_ids]),
        sampled_ids=sampled,
        corrupted_input_ids=corrupted,
        is_replaced=corrupted != originals,
        main_nll=torch.full(originals.shape, 0.5),
        discriminator_logits=torch.tensor([logits or [0.0] * len(input_ids)]),
    )
    return token_records(originals, torch.ones_like(originals), output).numpy()


def test_ids_up_to_200_000_are_told_apart():
    records = one_row(
        [199_999, 199_998, 65_537], [0, 1], [True, True], [199_998] * 2, predicted_ids=[199_999, 199_997]
    )
    metrics = evaluation_metrics(records, 50.0)
    assert (metrics["masked_accuracy"], metrics["sampled_accuracy"]) == (0.5, 0.5)
    assert metrics["replaced_rate"] == approx(1 / 3)


def test_undefined_metrics_are_nan():
    all_found = evaluation_metrics(one_row([2, 10, 11, 3], [1], [True], [12], logits=[-1.0, 1.0, -1.0, -1.0]), 50.0)
    assert not any(math.isnan(value) for value in all_found.values())
    assert all_found["discriminator_f1"] == all_found["discriminator_mcc"] == 1.0

    nothing_replaced = evaluation_metrics(one_row([2, 10, 11, 3], [1], [True], [10], logits=[-1.0] * 4), 50.0)
    assert math.isnan(nothing_replaced["discriminator_auc"])
    assert nothing_replaced["discriminator_accuracy"] == 1.0 and nothing_replaced["replaced_rate"] == 0.0

    nothing_suspected = evaluation_metrics(one_row([2, 10, 11, 3], [1], [True], [12], logits=[-1.0] * 4), 50.0)
    assert {nothing_suspected[f"discriminator_{name}"] for name in ("precision", "recall", "f1", "mcc")} == {0.0}
    assert nothing_suspected["discriminator_accuracy"] == 0.75 and nothing_suspected["discriminator_auc"] == 0.5

    nothing_chosen = evaluation_metrics(one_row([2, 3], [1], [False], [12]), 50.0)
    undefined = {name for name, value in nothing_chosen.items() if math.isnan(value)}
    generator_metrics = {"generator_loss", "masked_accuracy", "sampled_accuracy"}
    generator_metrics |= {"generator_loss_mask_token", "masked_accuracy_mask_token"}
    assert undefined == {"loss", "discriminator_auc", *generator_metrics}


def test_logits_that_are_not_finite_have_no_area_under_the_curve():
    for value in (math.nan, math.inf):
        records = one_row([2, 10, 11, 3], [1], [True], [12], logits=[value, 1.0, -1.0, -1.0])
        assert math.isnan(evaluation_metrics(records, 50.0)["discriminator_auc"])


def test_unigram_metrics_are_those_worked_out_by_hand():
    # Frequencies with one added: 4/20, 1/20, 5/20, 10/20 for ids 0 to 3.
    counts = np.array([3, 0, 4, 9])
    first = one_row([3, 2, 0, 3], [0, 1], [True, True], [1, 2])  # 3 -> 1, 2 -> 2
    second = one_row([2, 0], [1], [True], [1])  # 0 -> 1
    padded = np.full((1, 4, len(Field)), PADDING, dtype=np.float32)
    padded[:, :2] = second
    metrics = unigram_metrics(np.concatenate([first, padded]), counts)
    # asked for 3, 2 and 0; always answers 3
    assert metrics == approx(
        {
            "generator_loss_mask_token": (math.log(20 / 10) + math.log(20 / 5) + math.log(20 / 4)) / 3,
            "masked_accuracy_mask_token": 1 / 3,
            # replaced: 1 and 1, the rarest of all; not replaced: 2, 0, 3 and 2
            "discriminator_auc": 1.0,
        }
    )
    # one replaced by the second rarest (0), against originals 2, 3, 1: suspected more than two of the three
    records = one_row([3, 2, 3, 1], [0], [True], [0])
    assert unigram_metrics(records, counts)["discriminator_auc"] == approx(2 / 3)


def generated(predict, masked=850, kept=150, loss=1.0):
    """Records of chosen tokens of which some are kept, answered by a function of an id and whether it is masked.

    The generator's loss at each of them is `loss`; that of token frequencies is 1.2.
    """
    random = np.random.default_rng(0)
    ids = random.choice(4, masked + kept, p=[0.2, 0.05, 0.25, 0.5]).tolist()
    places = list(range(masked + kept))
    is_masked = [place < masked for place in places]
    answers = [predict(token, masked) for token, masked in zip(ids, is_masked, strict=True)]
    return one_row(ids, places, [True] * len(ids), answers, is_masked=is_masked, loss=loss)


COUNTS = np.array([3, 0, 4, 9])
"""Of ids 0 to 3: with one added, the shares that `generated` draws from."""


def test_a_generator_that_copies_what_it_sees_is_no_better_than_frequencies():
    dead = generated(lambda token, is_masked: 3 if is_masked else token)
    measured = evaluation_metrics(dead, 50.0)
    of_frequencies = unigram_metrics(dead, COUNTS)
    assert measured["masked_accuracy"] > 0.55 > measured["masked_accuracy_mask_token"]  # it copies 15 %
    assert measured["masked_accuracy_mask_token"] == of_frequencies["masked_accuracy_mask_token"]
    # Nothing is compared where the network may copy.
    assert not {"generator_loss", "masked_accuracy", "sampled_accuracy"} & of_frequencies.keys()
    verdict = generator_verdict(dead, COUNTS)
    assert verdict.is_good is False and "token frequencies" in verdict.text


@parametrize(
    ("predict", "is_good"),
    [
        (lambda token, is_masked: token if token == 2 else 3, True),  # right in three of four
        (lambda token, is_masked: token if not is_masked else 0, False),
        (lambda token, is_masked: 3, False),
    ],
)
def test_a_generator_is_judged_where_it_sees_a_mask(predict, is_good):
    verdict = generator_verdict(generated(predict), COUNTS)
    assert verdict.is_good is is_good and "850 masked tokens" in verdict.text


def test_a_generator_whose_loss_is_above_that_of_frequencies_is_not_good():
    verdict = generator_verdict(generated(lambda token, is_masked: token, loss=1.5), COUNTS)
    assert verdict.is_good is False and "1.50" in verdict.text


def test_the_error_of_a_generator_is_that_of_differences_at_the_same_positions():
    records = generated(lambda token, is_masked: token if token == 2 else 3, masked=100, kept=0)
    originals = records[0, :, Field.ORIGINAL_IDS]
    share = float(np.mean(originals == 2))  # where the generator is right and frequencies are not
    expected = 100 * math.sqrt(share * (1 - share) / 100)
    assert f"± {expected:.1f}" in generator_verdict(records, COUNTS).text


def test_fewer_than_50_masked_tokens_judge_no_generator():
    records = {masked: generated(lambda token, is_masked: token, masked=masked) for masked in (49, 50)}
    assert generator_verdict(records[49], COUNTS).is_good is None
    assert generator_verdict(records[50], COUNTS).is_good is not None


def test_special_tokens_are_the_least_suspicious():
    counts = np.array([0, 5, 9])  # id 0 is special: it stands in no corpus
    records = one_row([0, 2, 2, 0], [1], [True], [1])  # 2 -> 1, framed by special tokens
    assert unigram_metrics(records, counts, special_token_ids=[0])["discriminator_auc"] == 1.0
    assert unigram_metrics(records, counts)["discriminator_auc"] == approx(1 / 3)


# ---- other objectives


def test_frequencies_answer_what_the_objective_asks():
    counts = np.array([3, 0, 4, 9])
    records = one_row([3, 2, 0, 3], [0, 1], [True, True], [1, 2])
    electra = unigram_metrics(records, counts)
    of_generator = {name: electra[name] for name in ("generator_loss_mask_token", "masked_accuracy_mask_token")}
    mlm = {
        "mlm_loss_mask_token": electra["generator_loss_mask_token"],
        "mlm_accuracy_mask_token": electra["masked_accuracy_mask_token"],
    }
    causal = {"mlm_loss": mlm["mlm_loss_mask_token"], "mlm_accuracy": mlm["mlm_accuracy_mask_token"]}
    assert unigram_metrics(records, counts, objective=OBJECTIVES["mlm"]) == mlm
    assert unigram_metrics(records, counts, objective=OBJECTIVES["causal"]) == causal
    assert unigram_metrics(records, counts, objective=OBJECTIVES["replace_mlm"]) == of_generator
    with_gate = {**of_generator, "copy_gate_auc": electra["discriminator_auc"]}
    assert unigram_metrics(records, counts, objective=OBJECTIVES["all_tokens_mlm"]) == with_gate
    # Of the chosen ones 1 is the rarest and replaced, 2 is not; elsewhere a rarer one may stand.
    records = one_row([3, 2, 1, 3], [0, 1], [True, True], [0, 2])
    assert unigram_metrics(records, counts)["discriminator_auc"] == approx(2 / 3)
    assert unigram_metrics(records, counts, objective=OBJECTIVES["electra_15"])["discriminator_auc"] == 1.0


# ---- the table at the end of a run


def test_the_table_is_aligned_and_empty_where_there_is_no_value():
    rows = metric_rows(OBJECTIVES["mlm"])
    trained = {name: 0.25 for name, _ in rows} | {"mlm_loss": 10.125, "tokens": 1000.0}
    table = results_table({"start": {"mlm_loss": 12.5, "mlm_accuracy": math.nan}, "trained": trained}, rows)
    assert table.splitlines() == [
        "                            start  trained",
        "MLM loss at [MASK] (nats)           0.2500",
        "MLM accuracy at [MASK]              0.2500",
        "MLM loss (nats)           12.5000  10.1250",
        "MLM accuracy                        0.2500",
    ]


def test_token_counts_are_those_of_the_documents_given(make_cache):
    random = np.random.default_rng(0)
    documents = [[random.integers(5, 25, size=int(random.integers(1, 9))).tolist()] for _ in range(2500)]
    cache = make_cache(documents)  # more than are read at a time
    chosen = np.sort(random.choice(2500, size=1800, replace=False))
    counts = token_counts(cache, chosen, 6000)
    tokens = [token for document in chosen for token in documents[document][0]]
    assert counts.dtype == np.int64 and counts.tolist() == np.bincount(tokens, minlength=6000).tolist()
    assert not token_counts(cache, np.array([], dtype=np.int64), 20).any()
    assert "0 to 9" in refused(lambda: token_counts(cache, chosen, 10))


def test_token_counts_of_a_large_corpus_are_spread_evenly(make_numbered_cache, monkeypatch):
    cache = make_numbered_cache([10] * 20)
    monkeypatch.setattr(metrics_module, "MAX_COUNTED_TOKENS", 60)
    counts = token_counts(cache, Documents(20, left_out=np.empty(0, dtype=np.int64)), 205)
    # 60 of 200 tokens are at most every fourth document.
    counted_documents = (np.flatnonzero(counts[5:]) // 10).tolist()
    assert counted_documents == [document for document in range(0, 20, 4) for _ in range(10)]
