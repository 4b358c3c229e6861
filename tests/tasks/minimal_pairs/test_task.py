"""Pairs, accuracies and the command: from files to tables, and wrong input in one line."""

import json
import math

import numpy as np
import pytest
from pytest import approx

from electra.model.pretrained import Networks, load_networks
from electra.report.blocks import Fold, Heading, Text, Verdict
from electra.report.command import main as report
from electra.tasks.minimal_pairs.accuracies import margin, summarize
from electra.tasks.minimal_pairs.data import MinimalPairArguments, Pair, load_pairs
from electra.tasks.minimal_pairs.report import (
    accuracy_table,
    pairs_verdict,
    phenomenon_dots,
    report_pairs,
)
from electra.tasks.minimal_pairs.task import hub_scores_of_pairs, main, make_scorer, write_predictions
from tests.conftest import refused, refused_command
from tests.helpers import parametrize, read_json
from tests.tasks.glue.files import write_encoder
from tests.tasks.minimal_pairs.networks import PAIRS, random_pair, write_run

pytestmark = pytest.mark.slow


def write_pairs(path, *rows):
    """Write rows, by default `PAIRS`, as JSON lines; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows or PAIRS), encoding="utf-8")
    return path


def test_rows_become_pairs_with_paradigm_and_phenomenon(tmp_path):
    file = write_pairs(tmp_path / "data" / "a.jsonl")
    write_pairs(
        tmp_path / "data" / "b.jsonl", {"sentence_good": "x", "sentence_bad": "y"},
        {"sentence_good": "x", "sentence_bad": "y", "UID": "transitive", "linguistics_term": "s-selection"},
    )  # fmt: skip
    names = [("agreement", "morphology"), ("order", "order"), ("order", "order"), ("case", "morphology")]
    assert [(pair.paradigm, pair.phenomenon) for pair in load_pairs(str(file))] == names
    pairs = load_pairs(str(tmp_path / "data"), max_pairs=1)
    assert [pair.paradigm for pair in pairs] == ["agreement", "order", "case", "b", "transitive"]
    assert pairs[-1].phenomenon == "argument_structure"
    assert pairs[-1].place == f"{tmp_path}/data/b.jsonl:2"
    assert (pairs[1].good, pairs[1].bad) == ("the dog sells sea shells", "dog the sells sea shells")


def test_accuracies_and_standard_errors_are_those_worked_out_by_hand(tmp_path):
    pairs = load_pairs(str(write_pairs(tmp_path / "a.jsonl", *(PAIRS[number] for number in (0, 0, 0, 0, 1, 2, 3, 3)))))
    accuracies = summarize(pairs, np.array([1, 1, 1, 0, 0.5, 1, 0, 0]))
    assert accuracies["paradigms"]["agreement"] == {
        "accuracy": 0.75,
        "standard_error": math.sqrt(0.75 * 0.25 / 4),
        "pairs": 4,
    }
    assert accuracies["paradigms"]["order"]["standard_error"] == approx(0.25 / math.sqrt(2))  # a tie is one half
    assert accuracies["phenomena"]["morphology"] == {
        "accuracy": 0.375, "standard_error": approx(math.sqrt(0.75 * 0.25 / 4) / 2), "pairs": 6, "paradigms": 2,
    }  # fmt: skip
    assert accuracies["overall"]["accuracy"] == approx((0.75 + 0.75 + 0) / 3)
    expected = math.sqrt(0.75 * 0.25 / 4 + 0.25**2 / 2) / 3
    assert accuracies["overall"]["standard_error"] == approx(expected)


def test_a_margin_is_over_the_best_baseline_on_the_same_pairs():
    pairs = [Pair("a", "b", "p", "f", "") for _ in range(8)]
    good = np.array([1, 1, 1, 1, 1, 1, 1, 0])
    bad = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    token_margin = margin(
        pairs, good, {"fewer tokens": np.array([1, 1, 1, 1, 1, 0.5, 0, 0]), "token frequencies": bad}
    )
    assert token_margin["baseline"] == "fewer tokens"
    assert token_margin["difference"] == approx(7 / 8 - 5.5 / 8)
    assert token_margin["standard_error"] == approx(np.std([0, 0, 0, 0, 0, 0.5, 1, 0]) / math.sqrt(8))
    assert margin(pairs, good, {"token frequencies": bad})["baseline"] == "guessing"
    paradigms = [Pair("a", "b", "pq"[number // 4], "f", "") for number in range(8)]  # all of one, three of the other
    spread = margin(paradigms, good, {"token frequencies": bad})["standard_error"]
    assert spread == approx(np.std([0.5, 0.25], ddof=1) / math.sqrt(2))
    equal = margin(paradigms, np.array([1, 1, 1, 0] * 2), {"token frequencies": bad})["standard_error"]
    assert equal == approx(math.sqrt(0.75 * 0.25 / 4 * 2) / 2)  # paradigms are equal: the error of the pairs
    results = {
        "scores": {"pll": summarize(pairs, good)}, "per_token": {"pll": summarize(pairs, good)},
        "baselines": {"token frequencies": summarize(pairs, bad)}, "unequal_share": 0.5,
        "margins": {"pll": margin(pairs, good, {"token frequencies": bad})},
    }  # fmt: skip
    assert "8 pairs" in pairs_verdict("pll", results).text and pairs_verdict("pll", results).is_good is None
    results["scores"]["pll"]["overall"]["pairs"] = 80
    assert "above guessing (50.0), by 37.5 (± 11.7 with 80 pairs)" in pairs_verdict("pll", results).text
    assert pairs_verdict("pll", results).is_good
    results["margins"]["pll"]["standard_error"] = 0.2
    assert (
        "not clearly above guessing (50.0), by 37.5, at most twice the error of 20.0"
        in pairs_verdict("pll", results).text
    )
    assert pairs_verdict("pll", results).is_good is False
    results["margins"]["pll"]["standard_error"] = None
    assert pairs_verdict("pll", results).is_good is None


def test_ties_are_right_every_second_time_in_predictions(tmp_path):
    pairs = [Pair("good", "bad", "p", "f", "")] * 5
    scores = np.array([1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 0.0, 1.0, 3.0, 3.0])
    write_predictions(tmp_path, pairs, {"pll": scores})
    rows = read_json(tmp_path / "predictions_pll.json")["p"]["predictions"]
    assert [row["pred"] for row in rows] == ["bad", "good", "good", "bad", "bad"]
    assert [row["id"] for row in rows] == [f"p_{number}" for number in range(5)]


def test_only_whole_data_sets_have_scores_for_the_hub():
    results = {"pll": {"overall": {"accuracy": 0.61, "standard_error": 0.002}}}
    pairs = [Pair("a", "b", f"p{number % 2}", "f", "") for number in range(10)]

    def scores(**options):
        return hub_scores_of_pairs(MinimalPairArguments(pretrain_path="run", **options), pairs, results)

    (score,) = scores()
    assert (score.data, score.value) == (("nyu-mll/blimp", None), 0.61)
    assert "0.0020" in score.notes and "2 paradigms, 10 pairs" in score.notes
    (score,) = scores(data="jumelet/multiblimp", dataset_config_name="fin")
    assert score.data == ("jumelet/multiblimp", "fin")
    assert scores(data="./blimp") == [] == scores(max_pairs=1000)


def test_a_column_may_lack_a_phenomenon():
    pairs = [Pair("a", "b", f"p{number}", f"f{number % 3}", "") for number in range(6)]
    columns = {"whole": summarize(pairs, np.ones(6)), "part": summarize(pairs[:2] * 2, np.ones(4))}
    table = accuracy_table(columns, "phenomena")
    assert table.header == ["phenomenon", "whole", "part"]
    assert table.rows[-2] == ["f2", "100.0", ""]  # a paradigm with one pair has no standard error
    assert table.rows[-1] == ["overall", "100.0", "100.0 ± 0.0"]


def test_a_phenomenon_may_be_called_overall():
    pairs = [Pair("a", "b", name, name, "") for name in ("overall", "other") for _ in range(2)]
    table = accuracy_table({"pll": summarize(pairs, np.array([1, 1, 0, 0]))}, "phenomena")
    assert table.rows == [["other", "0.0 ± 0.0"], ["overall", "100.0 ± 0.0"], ["overall", "50.0 ± 0.0"]]


def test_folders_of_one_name_are_columns_of_their_own(tmp_path):
    pairs = [Pair("a", "b", "p", "f", "")]
    accuracies = {"pll": summarize(pairs, np.ones(1))}
    margins = {"pll": margin(pairs, np.ones(1), {})}
    results = {"scores": accuracies, "per_token": accuracies, "baselines": {}, "margins": margins, "unequal_share": 0}
    folders = [tmp_path / parent / "pairs" for parent in ("a", "b")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "minimal_pairs.json").write_text(json.dumps(results))
    assert report_pairs(folders).table.header == ["phenomenon", *(f"{folder}: pll" for folder in folders)]


def test_a_page_begins_with_the_verdict_and_repeats_no_table(tmp_path):
    pairs = [Pair("a", "b", name, name, "") for name in ("one", "other") for _ in range(25)]
    accuracies = summarize(pairs, np.ones(50))
    baseline_scores = {"fewer tokens": np.full(50, 0.5)}
    results = {
        "scores": {"pll": accuracies}, "per_token": {"pll": accuracies}, "unequal_share": 0.0,
        "baselines": {name: summarize(pairs, values) for name, values in baseline_scores.items()},
        "margins": {"pll": margin(pairs, np.ones(50), baseline_scores)},
    }  # fmt: skip
    (tmp_path / "minimal_pairs.json").write_text(json.dumps(results))
    (tmp_path / "config.yaml").write_text("pretrain_path: mine\ndata: blimp/data\n")
    blocks = report_pairs([tmp_path]).blocks
    assert isinstance(blocks[0], Text) and blocks[0].text.endswith(": blimp/data, mine, 50 pairs")
    assert isinstance(blocks[1], Verdict) and blocks[1].is_good
    headings = [block.text for block in blocks if isinstance(block, Heading)]
    assert headings == ["By phenomenon"]  # each paradigm is its phenomenon
    assert isinstance(blocks[-1], Fold) and "--data blimp/data" in str(blocks[-1].blocks)
    rows = phenomenon_dots({"pll": accuracies, "fewer tokens": results["baselines"]["fewer tokens"]}).rows
    assert [*rows] == ["one", "other", "overall"]
    for row in rows.values():
        assert {name: dot.score for name, (dot,) in row.items()} == {"pll": approx(100), "fewer tokens": approx(50)}


MULTIBLIMP = [
    {"sen": "koira juoksee", "wrong_sen": "koira juoksevat", "lang": "fin", "phenomenon": "SV-#"},
    {"sen": 'hän sanoi: "tule, jo"', "wrong_sen": 'hän sanoin: "tule, jo"', "lang": "fin", "phenomenon": "SV-P"},
]
RUBLIMP = [
    {"source_sentence": "Никто не верил.", "target_sentence": "Никто верил не.", "phenomenon": "Negation",
     "PID": "negative_concord"},
]  # fmt: skip


def test_pairs_of_other_languages_are_read_with_their_paradigms(tmp_path):
    pairs = load_pairs(str(write_pairs(tmp_path / "fin.jsonl", *MULTIBLIMP)))
    assert [(pair.good, pair.bad) for pair in pairs] == [tuple(row.values())[:2] for row in MULTIBLIMP]
    assert [(pair.paradigm, pair.phenomenon) for pair in pairs] == [("SV-#", "SV-#"), ("SV-P", "SV-P")]
    write_pairs(tmp_path / "russian.jsonl", *RUBLIMP)
    *_, pair = load_pairs(str(tmp_path))  # of the folder
    assert (pair.bad, pair.paradigm, pair.phenomenon) == ("Никто верил не.", "negative_concord", "Negation")
    own_columns = write_pairs(tmp_path / "own.jsonl", {"a": "x", "b": "y", "sen": "z"})
    assert load_pairs(str(own_columns), columns=["b", "a"])[0][:4] == ("y", "x", "own", "own")
    named = {"sentence_good": "x", "sentence_bad": "y", "paradigm": "number", "phenomenon": "agreement"}
    assert load_pairs(str(write_pairs(own_columns, named)))[0][2:4] == ("number", "agreement")


def test_one_configuration_of_a_data_set_can_be_read(tmp_path):
    for language in ("fin", "tur"):
        write_pairs(tmp_path / "multiblimp" / language / "data.jsonl", {**MULTIBLIMP[0], "sen": language})
    files = [{"config_name": name, "data_files": f"{name}/data.jsonl"} for name in ("fin", "tur")]
    (tmp_path / "multiblimp" / "README.md").write_text(f"---\n{json.dumps({'configs': files})}\n---\n")
    (pair,) = load_pairs(str(tmp_path / "multiblimp"), config="tur")
    assert pair.good == "tur"
    assert pair.place.endswith("multiblimp tur train row 0")
    assert "nothing" in refused(lambda: load_pairs(str(tmp_path / "multiblimp"), config="nothing"))


@pytest.fixture
def world(tmp_path, wordpiece_tokenizer, monkeypatch):
    """A run and pairs in the working directory."""
    write_run(tmp_path / "run", wordpiece_tokenizer, mlm_probability=0.25)
    write_pairs(tmp_path / "pairs.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flags(path, *more):
    """Return the command line of an evaluation of pairs.jsonl."""
    return ["--pretrain_path", path, "--data", "pairs.jsonl", "--use_cpu", *more]


def test_the_command_scores_what_the_path_allows(world, capsys):
    main(flags("run"))
    assert "overall" in capsys.readouterr().out
    written = read_json(world / "output/blimp_run/minimal_pairs.json")
    for name, accuracies in written["scores"].items():  # what BabyLM's scorer finds in the predictions
        predictions = read_json(world / f"output/blimp_run/predictions_{name}.json")
        right = {row["UID"]: [] for row in PAIRS}
        for row in PAIRS:
            uid = row["UID"]
            rows = predictions[uid]["predictions"]
            prediction = rows[len(right[uid])]
            assert prediction["id"] == f"{uid}_{len(right[uid])}"
            right[uid].append(prediction["pred"] == row["sentence_good"])
        for uid, values in right.items():
            assert abs(np.mean(values) - accuracies["paradigms"][uid]["accuracy"]) <= 0.5 / len(values)
    assert list(written["scores"]) == ["discriminator", "corrected", "pll"]
    assert written["replaced_share"] == approx(0.25 * 0.85)
    assert written["scores"]["pll"]["paradigms"]["case"]["accuracy"] == 0.5
    main(flags("run/discriminator", "--experiment_name", "alone"))
    alone = read_json(world / "output/alone/minimal_pairs.json")["scores"]
    assert alone == {"discriminator": written["scores"]["discriminator"]}
    main(flags("run/generator", "--experiment_name", "lm", "--per_device_eval_batch_size", "1"))
    assert read_json(world / "output/lm/minimal_pairs.json")["scores"] == {"pll": written["scores"]["pll"]}
    named_flags = ["--generator", "run/generator", "--score", "corrected"]
    main(flags("run/discriminator", "--experiment_name", "named", *named_flags))
    named = read_json(world / "output/named/minimal_pairs.json")["scores"]
    assert named == {"corrected": written["scores"]["corrected"]}
    report(["output/alone", "output/lm", "--output", "both"])
    assert "alone: discriminator | lm: pll" in (world / "both/report.md").read_text()
    assert "<table" in (world / "output/lm/report.html").read_text()


def test_a_model_of_the_hub_has_nothing_of_the_working_directory(world, wordpiece_tokenizer):
    (world / "config.yaml").write_text("mlm_probability: 0.4\n")
    discriminator, generator = random_pair(wordpiece_tokenizer)
    networks = Networks(generator, discriminator, wordpiece_tokenizer, None, "nobody")
    scorer = make_scorer(MinimalPairArguments(use_cpu=True), networks)
    assert scorer.replaced_share == approx(0.15 * 0.85)


@parametrize(
    ("options", "scores", "share"),
    [
        ({"mlm_replacement_probability": 0.5, "mlm_random_probability": 0.25}, ["corrected"], 0.15 * 0.75),
        ({"objective": "electra_15"}, ["corrected"], 0.85),
        ({"temperature": 2.0}, ["corrected"], 0.15 * 0.85),
        ({"disallow_correct": "true"}, [], 0.15 * 0.85),
    ],
)
def test_the_corrected_score_follows_the_options_of_the_run(world, wordpiece_tokenizer, options, scores, share):
    write_run(world / "other", wordpiece_tokenizer, **options)
    main(flags("other"))
    written = read_json(world / "output/blimp_other/minimal_pairs.json")
    assert list(written["scores"]) == ["discriminator", *scores, "pll"]
    assert written["replaced_share"] == approx(share)
    args = MinimalPairArguments(pretrain_path="other", use_cpu=True)
    scorer = make_scorer(args, load_networks("other"))
    assert scorer.temperature == options.get("temperature", 1.0)


def test_results_of_another_model_or_other_pairs_are_kept(world, wordpiece_tokenizer, capsys):
    main(flags("run"))
    results = world / "output/blimp_run/minimal_pairs.json"
    before = results.read_bytes()
    main(flags("run"))  # the same networks and pairs
    write_run(world / "elsewhere" / "run", wordpiece_tokenizer, mlm_probability=0.25)
    assert "holds other files or other results" in refused_command(main, flags("elsewhere/run"), capsys)
    write_pairs(world / "other.jsonl")
    for other in ("--data=other.jsonl", "--max_pairs=1", "--score=pll"):
        assert "other results" in refused_command(main, flags("run", other), capsys)
    assert results.read_bytes() == before


def test_baselines_and_scores_per_token_stand_beside_the_sums(world):
    rows = [
        {"sentence_good": "the dog sells shells", "sentence_bad": "dog sells", "UID": " longer "},
        {"sentence_good": "dog", "sentence_bad": "the dog", "UID": "shorter"},
        {"sentence_good": "the dog", "sentence_bad": "fox dog", "UID": "equal "},
    ]
    write_pairs(world / "pairs.jsonl", *rows)
    main(flags("run"))
    written = read_json(world / "output/blimp_run/minimal_pairs.json")
    baselines = {
        name: {paradigm: accuracies["accuracy"] for paradigm, accuracies in results["paradigms"].items()}
        for name, results in written["baselines"].items()
    }
    assert baselines == {
        "fewer tokens": {"longer": 0.0, "shorter": 1.0, "equal": 0.5},
        "token frequencies": {"longer": 0.0, "shorter": 1.0, "equal": 1.0},  # "the" is more frequent than "fox"
    }
    assert written["unequal_share"] == approx(2 / 3)
    lengths = {}
    tokenizer = load_networks("run").tokenizer
    for text in {text for row in rows for name, text in row.items() if name != "UID"}:
        lengths[text] = len(tokenizer.tokenize(text))
    for line in map(json.loads, (world / "output/blimp_run/pair_scores.jsonl").read_text().splitlines()):
        for name, (good, bad) in line["scores"].items():
            per_token = good / lengths[line["sentence_good"]] > bad / lengths[line["sentence_bad"]]
            assert written["per_token"][name]["paradigms"][line["UID"]]["accuracy"] == per_token
    page = (world / "output/blimp_run/report.md").read_text()
    for word in (
        "A tie counts half",
        "fewer tokens: ",
        "token frequencies: ",
        "per token: ",
        "phenomenon is",
        "pll: ",
    ):
        assert word in page
    assert "66.7 %" in page
    assert page.index("**pll ") < page.index("By phenomenon")


def test_every_pair_is_written_with_its_scores_in_letters(world):
    write_pairs(world / "pairs.jsonl", {"sentence_good": "the dog єдино", "sentence_bad": "dog the", "UID": "один"})
    main(flags("run"))
    folder = world / "output/blimp_run"
    (pair,) = map(json.loads, (folder / "pair_scores.jsonl").read_text().splitlines())
    assert (pair["sentence_good"], pair["UID"]) == ("the dog єдино", "один")
    written = (folder / "minimal_pairs.json").read_text()
    for name, accuracies in json.loads(written)["scores"].items():
        good, bad = pair["scores"][name]
        assert accuracies["overall"]["accuracy"] == float(good > bad)
    assert "єдино" in (folder / "pair_scores.jsonl").read_text()


def test_electrics_and_causal_networks_have_their_own_scores(world, wordpiece_tokenizer, capsys):
    for objective, path, scores in (
        ("electric", "electric", ["electric", "pll"]),
        ("causal", "causal/generator", ["causal"]),
    ):
        write_run(world / objective, wordpiece_tokenizer, objective=objective)
        main(flags(path, "--experiment_name", objective))
        assert list(read_json(world / "output" / objective / "minimal_pairs.json")["scores"]) == scores
    for path, score in (("electric", "discriminator"), ("electric", "corrected"), ("run", "electric")):
        assert "Electric" in refused_command(main, flags(path, "--score", score), capsys)


LONG = {"sentence_good": "dog " * 30, "sentence_bad": "dog"}
TWO_PHENOMENA = "".join(
    f'{{"sentence_good": "a", "sentence_bad": "b", "UID": "p", "phenomenon": "{name}"}}\n' for name in "fg"
)


@parametrize(
    ("content", "message"),
    [
        (b"", "pairs.jsonl is empty"),
        (b'{"sentence_good": "a", "sentence_bad": "b"}\n{"sentence_good": "a"\n', "pairs.jsonl:2 "),
        (b'{"sentence_good": "a"}\n', "sentence_bad"),
        (b'{"right": "a", "wrong": "b"}\n', "choose one with --columns GOOD BAD"),
        (TWO_PHENOMENA.encode(), "pairs.jsonl:2: the paradigm p is of f and g"),
        (json.dumps(LONG).encode(), "pairs.jsonl:1 has 32 tokens, more than the 24"),
    ],
)
def test_wrong_pairs_are_refused(world, content, message, capsys):
    (world / "pairs.jsonl").write_bytes(content)
    assert message in refused_command(main, flags("run"), capsys)
    assert not (world / "output").exists()


@parametrize(
    ("argv", "message"),
    [
        (flags("run/discriminator", "--score", "pll"), "generator"),
        (flags("run/generator", "--score", "discriminator"), "discriminator"),
        (flags("run", "--score", "perplexity"), "perplexity"),
        (flags("run", "--generator", "run/discriminator"), "run/discriminator"),
        (flags("plain"), "plain"),
        (flags("run", "--data", "empty"), "empty"),
        (flags("run", "--data", "nothing/here.jsonl"), "nothing/here.jsonl"),
        (flags("run", "--max_pairs", "0"), "--max_pairs 0"),
        (flags("run", "--columns", "sen"), "--columns"),
        (flags("run", "--output_dir", ".", "--experiment_name", "run"), "run holds other files"),
    ],
)
def test_wrong_commands_are_refused(world, argv, message, wordpiece_tokenizer, capsys):
    (world / "empty").mkdir()
    write_encoder(world / "plain", wordpiece_tokenizer)
    assert message in refused_command(main, argv, capsys)
    assert not (world / "output").exists()


def test_pairs_of_equal_sentences_are_counted(tmp_path, caplog):
    path = tmp_path / "a.csv"
    path.write_text("sentence_good,sentence_bad,paradigm\nA dog runs.,A dog run.,x\nA  dog runs. ,A dog runs.,y\n")
    assert [pair.paradigm for pair in load_pairs(str(path))] == ["x", "y"]
    assert "1 of 2 pairs are equal" in caplog.text and "a.csv:3" in caplog.text
