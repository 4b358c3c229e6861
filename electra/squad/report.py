"""How results on SQuAD are reported: its two versions, their scores, published rows. No torch.

    python -m electra.squad.report RUN [RUN ...] [--output FOLDER]

A folder is a row, so that a pre-trained model and one from scratch stand beside each other.
"""

from electra.errors import run_script
from electra.finetuning.protocol.aggregate import ScoredTask
from electra.finetuning.protocol.plain_report import plain_reporting
from electra.finetuning.protocol.report import report_command
from electra.squad.published import PUBLISHED

TASKS = {
    "squad_v1": ScoredTask("squad_v1", "SQuAD 1.1", "f1", "F1", {"train": 87_599, "dev": 10_570}),
    "squad_v2": ScoredTask("squad_v2", "SQuAD 2.0", "f1", "F1", {"train": 130_319, "dev": 11_873}),
}
"""Official numbers are of questions."""
DEFINITIONS = (
    "Exact match (EM) is the share of questions whose answer is one of the references; F1 is the overlap of its words "
    "with the best reference. Both are those of the official scripts, without case, punctuation and articles.",
    "SQuAD 2.0: a question whose odds of having no answer are above a threshold is not answered. EM and F1 are each "
    "at the threshold that is best on this set: best_exact and best_f1 of the official script. HasAns are its scores "
    "on questions with an answer, NoAns on those without, at the threshold best for F1.",
)
REPORTING = plain_reporting(
    "SQuAD results", lambda results: TASKS, {"exact_match": "EM", "f1": "F1"}, DEFINITIONS, PUBLISHED
)


def main(argv: list[str] | None = None) -> None:
    report_command(REPORTING, "electra.squad.report", argv)


if __name__ == "__main__":
    run_script(main)
