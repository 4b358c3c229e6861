"""Make the text and the labels of docs/start.md: German manual pages, and the section that a paragraph is from.

    apt-get download manpages-de && dpkg-deb -x manpages-de_*.deb manual    # 4.18.1-1 of Debian 12
    python examples/german_manual.py manual/usr/share/man/de .

It writes texte/handbuch.txt, of four fifths of the pages, abschnitte.csv with 2,000 of their paragraphs, and test.csv
with 500 paragraphs of the other pages. It needs groff.
"""

import argparse
import csv
import gzip
import random
import re
import subprocess
from pathlib import Path

SECTIONS = {"1": "Befehl", "5": "Dateiformat", "7": "Konzept", "8": "Verwaltung"}
"""Section of the manual -> label."""
GROFF = ("groff", "-Kutf8", "-t", "-man", "-mde", "-Tutf8", "-rLL=9000n", "-P-cbou")
"""Command that writes a page with a line for each paragraph, without bold letters and hyphenation at line ends."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a German text and labels from manual pages.")
    parser.add_argument("manual", type=Path, help="folder with man1, man5, man7, man8")
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    files = [path for path in sorted(args.manual.rglob("*.gz")) if not path.is_symlink()]
    pages = [(SECTIONS[path.parent.name[3:]], read_page(path)) for path in files if path.parent.name[3:] in SECTIONS]
    pages = [page for page in pages if page[1]]
    random.Random(0).shuffle(pages)
    cut = len(pages) * 4 // 5
    (args.output / "texte").mkdir(parents=True, exist_ok=True)
    text = "\n\n".join("\n".join(paragraphs) for _, paragraphs in pages[:cut])
    (args.output / "texte" / "handbuch.txt").write_text(text + "\n", encoding="utf-8")
    rng = random.Random(1)
    for name, part, number in (("abschnitte", pages[:cut], 2000), ("test", pages[cut:], 500)):
        rows = sorted({(text, label) for label, texts in part for text in texts if len(text.split()) <= 80})
        rng.shuffle(rows)
        with (args.output / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows[:number]])


def read_page(path: Path) -> list[str]:
    """Return the paragraphs of a manual page with at least twelve words; [] for a page that only names another."""
    source = gzip.decompress(path.read_bytes())
    if source.lstrip().startswith(b".so"):
        return []
    shown = subprocess.run(GROFF, input=source, capture_output=True, check=False).stdout.decode("utf-8", "replace")
    blocks = [" ".join(block.split()).replace("‐ ", "").strip() for block in re.split(r"\n\s*\n", shown)[1:-1]]
    return [block for block in blocks if len(block.split()) >= 12]


if __name__ == "__main__":
    main()
