"""Answers without a network: the name or number nearest to the words of the question."""

from pytest import approx

from electra.tasks.squad.baselines import (
    NEAREST_NAME,
    UNANSWERED,
    candidate_runs,
    nearest_names,
    nearness,
    split_words,
)
from electra.tasks.squad.questions import Questions, SquadQuestion
from electra.tasks.squad.task import reader_baselines
from tests.helpers import parametrize

PARAGRAPH = (
    "The bridge over the river was built by Maria de Jong in 1,887. It burned down in 1921, and Karl Berg paid for a "
    "new tower."
)


def questions(*asked, paragraph=PARAGRAPH, answers=("x",), is_version_2=False):
    found = [SquadQuestion(str(number), text, 0, answers, None) for number, text in enumerate(asked)]
    return Questions([paragraph], found, is_version_2, "here")


@parametrize(
    ("question", "answer"),
    [
        ("Who paid for the tower?", "Karl Berg"),
        ("In which year had it burned down?", "1921"),
        ("Who built the bridge?", "Maria"),  # a run ends at a word that begins with a small letter
        ("When had Maria de Jong built the bridge?", "1,887"),  # words of the question are no answer
    ],
)
def test_the_nearest_name_or_number_is_the_answer(question, answer):
    assert nearest_names(questions(question)).predictions == {"0": answer}


@parametrize(
    ("paragraph", "answer"),
    [("a cat sat on a red mat", "sat on"), ("cat", ""), ("...", ""), ("猫 吃 鱼", "猫 吃 鱼")],
)
def test_without_names_other_words_are_the_answer(paragraph, answer):
    assert nearest_names(questions("a cat", paragraph=paragraph)).predictions["0"] == answer


def test_nearness_falls_with_distance_and_at_the_end_of_a_sentence():
    words = split_words("Rome fell . a long war began Rome")
    near = nearness(words, (1, 1), {"rome", "war", "absent"})
    assert near == approx({"rome": 1 / 1.1, "war": 0.3 / 1.4})  # "fell" is 1 word from Rome, and 4 from the war
    assert candidate_runs(words, {"a"}) == [(0, 0), (7, 7)]


def test_words_of_many_paragraphs_are_no_answer():
    paragraphs = [f"Indeed they met Person{number} there." for number in range(10)]
    asked = [SquadQuestion(str(n), "Whom had they met?", n, ("x",), None) for n in range(10)]
    found = nearest_names(Questions(paragraphs, asked, False, "here"))
    assert found.predictions == {str(n): f"Person{n}" for n in range(10)}


def test_scores_are_those_of_the_official_scripts_and_version_2_may_have_no_answer():
    asked = ("Who paid for the tower?", "Which ship sailed?")
    found = reader_baselines(questions(*asked, answers=("Karl Berg",)))
    assert list(found) == [NEAREST_NAME] and found[NEAREST_NAME]["f1"] == approx(0.5)
    data = questions(*asked, is_version_2=True)
    right, no_answer = data.questions
    found = reader_baselines(
        Questions(
            data.paragraphs, [right._replace(answers=("Karl Berg",)), no_answer._replace(answers=())], True, "here"
        )
    )
    assert found[UNANSWERED] == {"exact_match": 0.5, "f1": 0.5}
    assert found[NEAREST_NAME] == {"exact_match": 1.0, "f1": 1.0}  # the unanswerable question has fewer words near by
