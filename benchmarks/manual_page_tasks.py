"""Two tasks on the manual pages that docs/results.md holds out: word order (CoLA's form), and markup (word labels).

    python -m benchmarks.manual_page_tasks man_held_out.txt man_tasks

`order/CoLA/`: sentences in the original or a disturbed word order, as in the demonstration task. `markup/`: words that
the source of a page sets in bold (literal text) or in italics (to be replaced by the reader), as the `man` of this
machine renders it. Pages of the test set are not those of the training set.
"""

import argparse
import hashlib
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # where a file is started, not a module

from electra.io.errors import run_script
from electra.tasks.glue.demo import disturb, prose_sentences

DEV_ROWS = 1000
ROWS = {"train": 1000, "test": 2000}
PAGES = Path("/usr/share/man")
PLAIN = "O"


def write_order(text: str, folder: Path) -> None:
    """train.tsv and dev.tsv; no bag of words occurs twice."""
    rng = random.Random(0)
    pairs = [(bad, good) for good in prose_sentences([text]) if (bad := disturb(good, rng)) is not None]
    rng.shuffle(pairs)
    rows = [f"man\t{row % 2}\t\t{pair[row % 2]}\n" for row, pair in enumerate(pairs)]
    parts = {"train": rows[DEV_ROWS:], "dev": rows[:DEV_ROWS]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        rng.shuffle(part)
        (folder / f"{name}.tsv").write_text("".join(part))


def read_markup(line: str) -> list[tuple[str, str]]:
    """Words and their faces. A letter that is struck twice is bold, one that is underscored is in italics."""
    letters, at = [], 0
    while at < len(line):
        face = PLAIN
        while line[at + 1 : at + 2] == "\b" and at + 2 < len(line):
            face = "italic" if line[at] == "_" != line[at + 2] else "bold"
            at += 2
        letters.append((line[at], face))
        at += 1
    words = [
        list(group)
        for is_space, group in itertools.groupby(letters, lambda letter: letter[0].isspace())
        if not is_space
    ]
    return [("".join(letter for letter, _ in word), word[0][1]) for word in words]


def write_markup(folder: Path) -> None:
    """train.txt and test.txt: paragraphs of 8 to 60 words, some but at most half of them marked."""
    with_faces = {**os.environ, "MAN_KEEP_FORMATTING": "1", "GROFF_NO_SGR": "1", "MANWIDTH": "10000"}
    found: dict[str, list[list[tuple[str, str]]]] = {"train": [], "test": []}
    seen = set()
    for page in sorted(page for section in "125678" for page in (PAGES / f"man{section}").glob("[dmDM]*")):
        command = ["man", "-E", "UTF-8", "--nh", "--nj", "-l", str(page)]
        text = subprocess.run(command, env=with_faces, capture_output=True).stdout.decode(errors="replace")
        part = "test" if int(hashlib.sha256(page.name.encode()).hexdigest(), 16) % 3 else "train"
        for words in map(read_markup, text.splitlines()):
            marked, key = sum(face != PLAIN for _, face in words), tuple(word for word, _ in words)
            if 8 <= len(words) <= 60 and 0 < marked <= len(words) / 2 and key not in seen:
                seen.add(key)
                found[part].append(words)
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    for name, paragraphs in found.items():
        rng.shuffle(paragraphs)
        with open(folder / f"{name}.txt", "w") as file:
            for words in paragraphs[: ROWS[name]]:
                previous = PLAIN
                for word, face in words:
                    file.write(f"{word} {face if face == PLAIN else ('I-' if face == previous else 'B-') + face}\n")
                    previous = face
                file.write("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("held_out", type=Path, help="the held-out pages as text")
    parser.add_argument("output_dir", type=Path)
    args = parser.parse_args()
    write_order(args.held_out.read_text(), args.output_dir / "order" / "CoLA")
    write_markup(args.output_dir / "markup")


if __name__ == "__main__":
    run_script(main)
