"""What does a discriminator find in text, beside a masked language model and the frequencies of tokens?

    python -m benchmarks.bench_detect --discriminator RUN --language_model MLM_RUN --train_file wiki.txt \\
        --held_out held_out.txt --other fiction.txt dialogue.txt

Both networks have the same tokenizer. Errors: half of the held-out paragraphs get one error each; measures of tokens,
and of texts by the mean of their tokens. Documents: held-out paragraphs are right, those of another file are wrong.
Scores: D, from one pass; -log q of the language model where the token is masked, from eight passes, each with every
eighth token masked; minus the logarithm of the token's frequency in the training file. F0.5: at the threshold with 1 %
false alarms in other held-out paragraphs.
"""

import random
from collections import defaultdict
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from sklearn.metrics import average_precision_score, fbeta_score, roc_auc_score
from torch import Tensor

from electra.base.errors import run_script
from electra.base.parser import Parser
from electra.core.networks import encode, lm_logits
from electra.model.pretrained import load_networks
from electra.report.blocks import table_of, to_markdown
from electra.runtime.device import prepare_network
from electra.tasks.detect.scores import Detector, ScoredTokens
from electra.tasks.detect.task import auroc_error
from electra.tasks.minimal_pairs.scores import encode_sentences

KINDS = ("other word", "swapped", "dropped", "doubled", "misspelt", "OCR")
OCR = {"rn": "m", "cl": "d", "m": "rn", "h": "b", "l": "1", "i": "l", "o": "0", "e": "c", "u": "n", "a": "o"}
WORDS = 30
PASSES = 8
Paragraph = list[str]


class Scores:
    """Scores with labels at two levels: of tokens, and of texts, which are means over tokens."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = defaultdict(list)
        self.labels: dict[str, list[bool]] = defaultdict(list)

    def add(self, scored: ScoredTokens, is_wrong: bool, spans: list[list[int]]) -> None:
        """Add the scores of a text and of its tokens; `spans` are its wrong passages."""
        self.values["text"].append(scored.mean)
        self.labels["text"].append(is_wrong)
        wrong = np.zeros(len(scored.starts), bool)
        for start, end in spans:
            wrong |= (scored.starts < end) & (scored.ends > start)
        self.values["token"] += scored.probabilities.tolist()
        self.labels["token"] += wrong.tolist()

    def thresholds(self, false_alarm_rate: float) -> dict[str, float]:
        """Return for each level the threshold that a share `false_alarm_rate` of the scores exceeds."""
        return {
            level: float(np.quantile(values, 1 - false_alarm_rate, method="higher"))
            for level, values in self.values.items()
        }

    def cells(self, level: str, threshold: float) -> dict[str, str]:
        """Return how well the scores of a level find what is wrong, as the cells of a table."""
        labels, scores = self.labels[level], np.array(self.values[level])
        wrong, right = sum(labels), len(labels) - sum(labels)
        area = float(roc_auc_score(labels, scores))
        precision = average_precision_score(labels, scores)
        f_half = fbeta_score(labels, scores > threshold, beta=0.5, zero_division=0.0)
        return {
            "AUROC": f"{area:.3f} ± {auroc_error(area, wrong, right):.3f}",
            "average precision": f"{precision:.3f}",
            "F0.5": f"{f_half:.3f}",
            "wrong": f"{wrong:,}",
            "right": f"{right:,}",
        }


Found = defaultdict[str, Scores]


def paragraphs(path: str, count: int, rng: random.Random) -> list[Paragraph]:
    """Return the first words of random lines."""
    with open(path, encoding="utf-8") as file:
        lines = [line.split()[:WORDS] for line in file]
    return rng.sample([words for words in lines if len(words) == WORDS], count)


def damage(words: Paragraph, kind: str, rng: random.Random, other_words: Paragraph) -> tuple[str, list[list[int]]]:
    """Return the text with one error, and the span of the error. Where a word was dropped, the next one is wrong."""
    places = [i for i, word in enumerate(words[:-1]) if word.isalpha() and len(word) > 3]
    at = rng.choice(places)
    word = words[at]
    after = words[at + 1]
    shape = next((shape for shape in OCR if shape in word), word[-1])
    before = [*words[:at], word] if kind == "doubled" else words[:at]
    wrong = {
        "other word": rng.choice(other_words),
        "swapped": f"{after} {word}",
        "dropped": after,
        "doubled": word,
        "misspelt": word[:1] + word[2] + word[1] + word[3:],
        "OCR": word.replace(shape, OCR.get(shape, "~"), 1),
    }[kind]
    behind = words[at + 2 :] if kind in ("swapped", "dropped") else words[at + 1 :]
    start = len(" ".join([*before, ""]))
    end = start + len(wrong)
    return " ".join([*before, wrong, *behind]), [[start, end]]


class Judges:
    """The networks, and the frequencies of tokens."""

    def __init__(self, discriminator: str, language_model: str, train_file: str) -> None:
        networks = load_networks(discriminator)
        self.tokenizer: Any = networks.tokenizer
        self.detector = Detector(networks.discriminator, self.tokenizer, max_length=128)
        self.language_model = load_networks(language_model).discriminator
        prepare_network(networks.discriminator, self.language_model, use_cpu=True)
        with open(train_file, encoding="utf-8") as file:
            ids = self.tokenizer([line for line in file if line.strip()], verbose=False)["input_ids"]
        counts = np.bincount(np.concatenate(ids).astype(int), minlength=len(self.tokenizer)) + 1
        self.rarity = -np.log(counts / counts.sum())

    @torch.inference_mode()
    def surprise(self, ids: Tensor) -> np.ndarray:
        """-log q of each token, (B, L); 0 at both ends."""
        surprises = torch.zeros(ids.shape)
        for first in range(1, 1 + PASSES):
            columns = torch.arange(first, ids.size(1) - 1, PASSES)
            masked = ids.index_fill(1, columns, self.tokenizer.mask_token_id)
            hidden = encode(self.language_model, masked, None, None)[:, columns]
            log_q = lm_logits(self.language_model, hidden).log_softmax(2)
            surprises[:, columns] = -log_q.gather(2, ids[:, columns, None]).squeeze(2)
        return surprises.numpy()

    def add(self, scores_by_name: Found, texts: list[str], is_wrong: bool, spans: list[Any]) -> None:
        """Add the tokens of texts to each score."""
        scored = self.detector.score(texts)
        for group in encode_sentences(texts, self.tokenizer):
            surprise = self.surprise(torch.as_tensor(group.ids))
            for text, row in zip(group.texts, group.rows, strict=True):
                is_text = group.is_text[row]
                terms = {
                    "D": scored[text].probabilities,
                    "language model": surprise[row][is_text],
                    "frequency": self.rarity[group.ids[row][is_text]],
                }
                for name, values in terms.items():
                    tokens = scored[text]._replace(probabilities=values)
                    scores_by_name[name].add(tokens, is_wrong, spans[text])


def main() -> None:
    parser = Parser(description=__doc__)
    for name in ("discriminator", "language_model", "train_file", "held_out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--other", nargs="*", default=[], metavar="FILE", help="documents of another kind")
    parser.add_argument("--texts", type=int, default=100, help="right ones, and as many wrong ones")
    args = parser.parse_args()
    judges = Judges(args.discriminator, args.language_model, args.train_file)
    rng = random.Random(0)
    held_out = paragraphs(args.held_out, 3 * args.texts, rng)
    other_words = held_out.pop()
    sets = {kind: [damage(words, kind, rng, other_words) for words in held_out[1::3]] for kind in KINDS}
    for path in args.other:
        sets[path] = [(" ".join(words), []) for words in paragraphs(path, args.texts, rng)]
    calibration: Found = defaultdict(Scores)
    untouched: Found = defaultdict(Scores)
    for scores_by_name, right in ((untouched, held_out[0::3]), (calibration, held_out[2::3])):
        judges.add(scores_by_name, [" ".join(words) for words in right], False, [[]] * len(right))
    rows = []
    for name, wrong in sets.items():
        scores_by_name = deepcopy(untouched)
        judges.add(scores_by_name, [text for text, _ in wrong], True, [spans for _, spans in wrong])
        for score, scores in scores_by_name.items():
            for level, threshold in calibration[score].thresholds(0.01).items():
                if len({*scores.labels[level]}) == 2:
                    cells = scores.cells(level, threshold)
                    rows.append({"error": name, "level": level, "score": score, **cells})
    print(to_markdown([table_of(rows)]))


if __name__ == "__main__":
    run_script(main)
