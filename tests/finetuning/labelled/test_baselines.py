"""What needs no network: constant answers and a bag of words, from the rows of a run."""

import time

import numpy as np
from pytest import approx

from electra.finetuning.labelled.baselines import make_baselines
from electra.finetuning.labelled.labels import Example, LabelledTexts, LabelSet
from electra.finetuning.labelled.metrics import NUMBER, SEVERAL, SINGLE
from electra.finetuning.labelled.scores import ClassificationReferences
from electra.finetuning.task import Split
from electra.finetuning.words import fit_words
from electra.report.evaluation import BAG_OF_WORDS, CONSTANT
from tests.helpers import parametrize


def task(labels, train, dev):
    """Return the data of a task and its splits, from rows of (text, label)."""
    rows = {"train": train, "dev": dev}
    examples = {
        name: [Example(text, None, label, f"{name}:{number}") for number, (text, label) in enumerate(split)]
        for name, split in rows.items()
    }
    data = LabelledTexts(labels, examples)
    splits = {}
    for name, split in examples.items():
        owners = np.arange(len(split))
        references = ClassificationReferences(labels, data.targets(name), owners, [])
        splits[name] = Split(None, references, len(split))
    return data, splits


def scores(data, splits, chosen=None, seed=0):
    """Return the metrics of each baseline, by its title, on the texts that a seed trains on."""
    return {title: baseline.metrics for title, baseline in make_baselines(data, splits, chosen)(seed).items()}


WORDS = [("good film", (1,)), ("bad film", (0,)), ("very good", (1,)), ("bad bad plot", (0,)), ("good plot", (1,))]


def test_words_of_classes_are_learned():
    dev = [("good", (1,)), ("bad", (0,)), ("good end", (1,))]
    baselines = scores(*task(LabelSet(SINGLE, ["neg", "pos"]), WORDS, dev))
    assert baselines[BAG_OF_WORDS]["accuracy"] == 1 and baselines[CONSTANT]["accuracy"] == approx(2 / 3)
    three_classes = [*WORDS, ("odd and odd", (2,)), ("odd thing", (2,))]
    dev = [("odd", (2,)), ("bad", (0,)), ("good", (1,))]
    baselines = scores(*task(LabelSet(SINGLE, ["a", "b", "c"]), three_classes, dev))
    assert baselines[BAG_OF_WORDS]["accuracy"] == 1 and baselines[CONSTANT]["accuracy"] == approx(1 / 3)


def test_the_probabilities_of_the_constant_answer_are_the_shares_of_the_classes():
    train = [("a", (0,))] * 6 + [("b", (1,))] * 3 + [("c", (2,))]
    data, splits = task(LabelSet(SINGLE, ["a", "b", "c", "lost"]), train, train)
    assert scores(data, splits)[CONSTANT]["ece"] == approx(0, abs=1e-6)
    assert np.exp(data.constant("train")) == approx([0.6, 0.3, 0.1, 0], abs=1e-6)


def test_words_of_several_classes_of_numbers_and_of_unspaced_texts_are_learned():
    several = [("red", (0,)), ("red blue", (0, 1)), ("blue", (1,)), ("grey", ())] * 5
    baselines = scores(*task(LabelSet(SEVERAL, ["a", "b"]), several, several[:4]))
    assert baselines[BAG_OF_WORDS]["micro_f1"] == 1 and baselines[BAG_OF_WORDS]["average_precision"] == 1
    logits = fit_words(["red", "blue"] * 5, np.array([[1], [0]] * 5), SEVERAL, 1)(["blue", "red"])
    assert logits.shape == (2, 1) and logits[0] < 0 < logits[1]
    rare = [("red", (0,)), ("blue", (1,)), ("grey", ()), ("red", (0,)), ("green", ()), ("pink", ())] * 5
    # The most frequent class to three texts: one right answer, two wrong ones, one label is missed.
    assert scores(*task(LabelSet(SEVERAL, ["a", "b"]), rare, rare[:3]))[CONSTANT]["micro_f1"] == approx(2 / 5)
    numbers = [("good", 1.0), ("fair", 0.5), ("bad", 0.0)] * 5
    baselines = scores(*task(LabelSet(NUMBER, [], 1.0, 5.0), numbers, numbers[:3]))
    assert baselines[BAG_OF_WORDS]["spearman"] == 1 and baselines[CONSTANT]["rmse"] == approx((1 / 6) ** 0.5)
    thai = [("ฉันชอบหนังเรื่องนี้", (1,)), ("หนังแย่มาก", (0,)), ("ชอบมาก", (1,)), ("แย่", (0,))] * 3
    assert scores(*task(LabelSet(SINGLE, ["neg", "pos"]), thai, thai[:4]))[BAG_OF_WORDS]["accuracy"] == 1


def test_a_run_on_a_part_of_the_texts_has_its_own_baselines():
    train = [("good", (1,))] * 3 + [("bad", (0,))] * 9
    data, splits = task(LabelSet(SINGLE, ["neg", "pos"]), train, [("good", (1,)), ("good", (1,)), ("bad", (0,))])
    parts = {1: np.array([0, 1, 2, 3]), 2: np.arange(3, 12), 3: np.arange(12)}
    by_seed = {seed: scores(data, splits, parts.get, seed) for seed in parts}
    assert [by_seed[seed][CONSTANT]["accuracy"] for seed in parts] == approx([2 / 3, 1 / 3, 1 / 3])
    assert BAG_OF_WORDS not in by_seed[2]  # one class is nothing to learn
    assert by_seed[3][BAG_OF_WORDS]["accuracy"] == 1


@parametrize("text", ["!!!", "a b c"])
def test_texts_without_words_have_a_constant_only(text):
    baselines = scores(*task(LabelSet(SINGLE, ["neg", "pos"]), [(text, (0,)), (text, (1,))], [(text, (1,))]))
    assert list(baselines) == [CONSTANT]


def test_thousands_of_classes_need_seconds():
    train = [(f"word{number % 500} other{number % 7}", (number % 500,)) for number in range(3000)]
    begun = time.process_time()
    baselines = scores(*task(LabelSet(SINGLE, [str(number) for number in range(500)]), train, train[:500]))
    assert baselines[BAG_OF_WORDS]["accuracy"] > 0.9 and time.process_time() - begun < 20
