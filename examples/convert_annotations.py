"""Convert exports of annotation tools, and other corpora, into the forms that electra reads, as jsonl.

    python examples/convert_annotations.py annotated.json train.jsonl

- doccano, Prodigy and Label Studio (JSON, JSON-MIN, csv) become rows with `text` and `spans`, or `text` and `label`.
- brat becomes rows with `text` and `spans`: name a document, its .ann, or a folder.
- WebAnno TSV 3, OntoNotes (CoNLL-2012), and files with a word and its label in each line become rows with `tokens` and
  `tags`. Labels are written as B-LOC, I-LOC and O, also those that were `B_LOC`, `LOC-B`, `0`, BMES, or brackets.
- ARC, CommonsenseQA, OpenBookQA, RACE, MMLU, HellaSwag, and tables with choices in columns A, B, ... become rows with
  `question`, `choices` and `label`.

This program guesses. So it prints what it made: the form, the number of rows and labels, what it left out or changed,
and the first three rows. Look at them. It needs Python's standard library alone.
"""

import argparse
import csv
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
Note = Callable[[str], None]
"""A function that records what was left out or changed in a row."""

SPAN_COLUMNS = ("spans", "entities", "label", "labels")
"""Names of the column of spans, by preference."""
CLASS_COLUMNS = ("label", "labels", "category")
"""Names of the column of classes, by preference."""
LABEL_STUDIO_COLUMNS = {"id", "text", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}
"""Columns of JSON-MIN beside the answer, whose name is that of the question."""
LETTERS = "ABCDEFGH"
"""Names of choices that have no others."""


class Unusable(Exception):
    """A row or file that cannot be converted; the message says why."""


class Converted(NamedTuple):
    """A converted file.

    Args:
        form: the form of the file, such as "texts with spans".
        rows: its rows in electra's form.
        notes: what was left out or changed -> the places where.
    """

    form: str
    rows: list[Row]
    notes: dict[str, list[str]]


def parsed(value: Any) -> Any:
    """Return the list or mapping that a cell holds as JSON; return other values as they are."""
    if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def text_of(row: Row) -> str:
    """Return the text of a row; raise Unusable without one, or if its annotator has not accepted it."""
    text = row.get("text", row.get("data"))  # an older doccano has "data"
    if not isinstance(text, str):
        raise Unusable("it has another form")
    if row.get("answer") in ("reject", "ignore"):  # of Prodigy
        raise Unusable(f"the answer of the annotator is '{row['answer']}'")
    return text


def first_value(row: Row, columns: Sequence[str]) -> Any:
    """Return the value of the first of these columns that is filled in a row; None if none is."""
    return next((parsed(row[name]) for name in columns if row.get(name) not in (None, "")), None)


# ---- spans of characters


def spans_row(row: Row, note: Note) -> Row:
    """Return a row as a text with spans."""
    text = text_of(row)
    values = first_value(row, SPAN_COLUMNS)
    if not isinstance(values, list) or not all(isinstance(value, list | dict) for value in values) or "accept" in row:
        raise Unusable("it has another form")
    spans = []
    for value in values:
        try:
            spans.append(span_of(value, text, note))
        except Unusable as reason:
            note(f"a span is left out: {reason}")
    return {"text": text, "spans": without_overlaps(spans, note)}


def span_of(value: Any, text: str, note: Note) -> list[Any]:
    """Return [start, end, label], in characters, of a span that a tool has written as such a list or as an object."""
    passage = None
    if isinstance(value, dict):
        start, end = (value.get(name, value.get(f"{name}_offset")) for name in ("start", "end"))
        label = value.get("label", value.get("labels"))
        passage = value.get("text")
    else:
        start, end, label = value if len(value) == 3 else (None, None, None)
    if isinstance(label, list):
        if len(label) > 1:
            note("a span has several labels, the first is taken")
        label = label[0] if label else None
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(label, str):
        raise Unusable("it is no start, end and label")
    if passage is not None and text[start:end] != passage:
        if text.count(passage) != 1:
            raise Unusable("its text is not at its place")
        note("a span is moved to the only place of its text; its numbers may count bytes")
        start = text.index(passage)
        end = start + len(passage)
    if not 0 <= start < end <= len(text):
        raise Unusable("it is empty, or not inside the text")
    return [start, end, label]


def without_overlaps(spans: Sequence[list[Any]], note: Note) -> list[list[Any]]:
    """Return the spans in order, without those that overlap with a longer one."""
    kept: list[list[Any]] = []
    for span in sorted(spans, key=lambda span: span[0] - span[1]):
        if any(span[0] < longer[1] and longer[0] < span[1] for longer in kept):
            note("a span is left out: it overlaps with a longer one")
        else:
            kept.append(span)
    return sorted(kept)


def without_label_studio(row: Row, note: Note) -> Row:
    """Return a task of Label Studio as a row with a text and its spans or label; return other rows as they are."""
    data, annotations = row.get("data"), row.get("annotations")
    if not isinstance(data, dict) or not isinstance(annotations, list):
        return row
    kept = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    if not kept:
        raise Unusable("it has no annotation, or its annotator has skipped it")
    if len(kept) > 1:
        note("a row has several annotations, the first is taken")
    results = [result["value"] for result in kept[0]["result"] if "value" in result]  # a relation has none
    text = data.get("text", next((value for value in data.values() if isinstance(value, str)), None))
    answers = [value["choices"] for value in results if "choices" in value]
    return {"text": text, "label": answers[0]} if answers else {"text": text, "spans": results}


# ---- classes


def classes_row(row: Row, note: Note) -> Row:
    """Return a row as a text with a label, or with a list of labels."""
    text = text_of(row)
    label = first_value(row, CLASS_COLUMNS)
    if label is None and "lead_time" in row:  # JSON-MIN of Label Studio
        answers = [value for name, value in row.items() if name not in LABEL_STUDIO_COLUMNS]
        label = answers[0] if len(answers) == 1 else None
    if isinstance(label, dict):
        label = label.get("choices")
    if "accept" in row and "options" in row:  # Prodigy
        names = {option["id"]: option.get("text", option["id"]) for option in row["options"]}
        label = [names[answer] for answer in row["accept"]]
    values = label if isinstance(label, list) else [label]
    if label is None or not all(isinstance(value, str | int | float) for value in values):
        raise Unusable("it has another form")
    return {"text": text, "label": values[0] if len(values) == 1 else values}


# ---- questions with choices


def question_row(row: Row, note: Note) -> Row:
    """Return a row as a question with choices, the number of the right one, and a context if there is one."""
    row = {name: parsed(value) for name, value in row.items()}
    question = first_value(row, ("question", "question_stem", "ctx"))
    choices = first_value(row, ("choices", "options", "endings"))
    if isinstance(question, dict):  # ARC and CommonsenseQA as distributed
        question, choices = question["stem"], question["choices"]
    if isinstance(choices, dict):  # their rows of the Hub
        choices = [{"label": key, "text": text} for key, text in zip(choices["label"], choices["text"], strict=True)]
    if choices is None:
        choices = [
            value for letter in LETTERS if (value := row.get(letter, row.get(letter.lower()))) not in (None, "")
        ]
    if not isinstance(question, str) or not isinstance(choices, list) or len(choices) < 2:
        raise Unusable("it has another form")
    keys = [*LETTERS]
    if isinstance(choices[0], dict):
        keys = [choice["label"].upper() for choice in choices]
        choices = [choice["text"] for choice in choices]
    converted = {"question": question, "choices": choices}
    if context := first_value(row, ("article", "fact1")):  # of RACE and OpenBookQA
        converted["context"] = context
    answer = str(row.get("answerKey", row.get("answer", row.get("label", "")))).strip()
    if answer in ("", "-1", "None"):
        note("a row has no answer")
        return converted
    if answer.upper() in keys:
        number = keys.index(answer.upper())
    elif answer.isdecimal():
        note("answers are numbers from 0")
        number = int(answer)
    else:
        number = len(choices)
    if number >= len(choices):
        raise Unusable(f"its answer is none of its choices, such as {answer[:40]!r}")
    return {**converted, "label": number}


# ---- words


def tags_row(row: Row, note: Note) -> Row:
    """Return a row as words with a label each."""
    words = first_value(row, ("tokens", "words"))
    tags = first_value(row, ("tags", "ner_tags", "labels"))
    if not isinstance(words, list) or not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Unusable("it has another form")
    if len(words) != len(tags):
        raise Unusable("it has other numbers of words and labels")
    return {"tokens": words, "tags": tags}


SEPARATOR = "[-_/:|.\u2010-\u2015\u2212]"
"""Characters between the prefix and the type of a label, such as B-LOC; among them dashes and the minus sign."""
SPELLINGS = (
    re.compile(rf"(?P<prefix>[BIESLUMW]){SEPARATOR}(?P<type>.+)", re.IGNORECASE),
    re.compile(rf"(?P<type>.+){SEPARATOR}(?P<prefix>[BIESLUMW])"),
)
"""Spellings of labels with a prefix; a file has the first one that fits all of its labels."""
SAME_PREFIX = {"M": "I", "W": "S"}
"""Prefix of BMES and BMEWO -> the usual one."""
OUTSIDES = ("O", "0", "o", "_", "-", "*")
"""Labels that stand for O, where all other labels have a prefix."""


def usual_tags(converted: Converted) -> None:
    """Replace other spellings of labels in the rows by B-LOC, I-LOC and O, and note what was replaced."""
    tagged = [row for row in converted.rows if "tags" in row]
    labels = set(chain.from_iterable(row["tags"] for row in tagged))
    outside = next((label for label in OUTSIDES if label in labels), "O")
    inside = labels - {outside}
    for spelling in SPELLINGS:
        matches = [match for match in map(spelling.fullmatch, sorted(inside)) if match]
        prefixes = {match[0]: match["prefix"].upper() for match in matches}
        if len(matches) < len(inside) or "B" not in prefixes.values():
            continue
        usual = {match[0]: f"{SAME_PREFIX.get(p := prefixes[match[0]], p)}-{match['type']}" for match in matches}
        usual[outside] = "O"
        changed = sorted(label for label in labels if label != usual[label])
        if changed:
            converted.notes[f"the label '{changed[0]}' is written as '{usual[changed[0]]}'"] = []
        for row in tagged:
            row["tags"] = [usual[tag] for tag in row["tags"]]
        return


BRACKETED = re.compile(r"\*\)?|\((?P<type>[^()*]+)(?:\*\)?|\))")
"""A label with brackets, as OntoNotes writes spans: (LOC* begins one, *) ends one, (LOC) is one word."""


def without_brackets(tags: Sequence[str]) -> list[str]:
    """Return OntoNotes' labels of the words of a sentence as B-LOC, I-LOC and O."""
    usual = []
    inside = ""
    for tag in tags:
        match = BRACKETED.fullmatch(tag)
        if not match:
            raise Unusable(f"the label {tag!r} of OntoNotes has no brackets that are known")
        inside = match["type"] or inside
        usual.append(f"B-{inside}" if match["type"] else f"I-{inside}" if inside else "O")
        if tag.endswith(")"):
            inside = ""
    return usual


def convert_columns(text: str, path: Path, word: int, label: int) -> Converted:
    """Return the sentences of a file with a word and its label in each line, blank lines between sentences.

    Args:
        word, label: numbers of the columns, from 0, or from -1 at the end.
    """
    is_ontonotes = "#begin document" in text
    if is_ontonotes:
        word, label = 3, 10
    lines = [line.rstrip() for line in text.split("\n")]
    plain = [line for line in lines if line and not line.startswith(("#", "-DOCSTART-"))]
    cells_of = re.compile(r"\t" if all("\t" in line for line in plain) else r"[ \t]+").split
    width = len(cells_of(plain[0])) if plain else 0
    if not all(-width <= number < width for number in (word, label)) or width < 2:
        raise Unusable(f"it has {width} columns; --word_column and --label_column number them from 0")
    labels = {cells_of(line)[label] for line in plain} if not is_ontonotes else set()
    rows = []
    number = 0
    for is_text, group in groupby(lines, key=bool):
        sentence = []
        for line in group:
            number += 1
            cells = cells_of(line)
            is_word = len(cells) == width and cells[label] in labels  # the word "#", and no comment
            if not is_text or line.startswith("-DOCSTART-") or (line.startswith("#") and not is_word):
                continue
            if len(cells) != width and not is_ontonotes:
                raise Unusable(f"line {number} has {len(cells)} columns, the first line {width}")
            sentence.append(cells)
        if sentence:
            tags = [cells[label] for cells in sentence]
            tokens = [cells[word] for cells in sentence]
            rows.append({"tokens": tokens, "tags": without_brackets(tags) if is_ontonotes else tags})
    return Converted(f"columns, with words in column {word} and labels in column {label}", rows, defaultdict(list))


def convert_webanno(text: str, path: Path) -> Converted:
    """Return the sentences of WebAnno TSV 3, with the named entities, or the first layer of spans."""
    notes: dict[str, list[str]] = defaultdict(list)
    names = []
    for layer in re.findall(r"^#T_(?:SP|CH|RL)=(.+)$", text, re.MULTILINE):
        name, *features = layer.split("|")
        names += [f"{name}|{feature}" for feature in features]
    column = 3 + next((number for number, name in enumerate(names) if name.endswith("NamedEntity|value")), 0)
    lines = [line.split("\t") for line in text.split("\n") if re.match(r"\d+-\d+\t", line)]  # without parts of words
    rows = []
    for number, sentence in groupby(lines, key=lambda cells: cells[0].partition("-")[0]):
        tokens, tags = [], []
        before = ""
        for cells in sentence:
            cell, *others = unescaped(cells[column]).split("|")
            if others:
                notes["a word has several labels, the first is taken"].append(f"{path} sentence {number}")
            label = re.sub(r"\[\d+\]$", "", cell)
            is_inside = cell == before and cell != label  # the same number in brackets: the same span
            tags.append("O" if label in ("_", "*") else f"{'I' if is_inside else 'B'}-{label}")
            tokens.append(unescaped(cells[2]))
            before = cell
        rows.append({"tokens": tokens, "tags": tags})
    return Converted(f"WebAnno TSV, {names[column - 3]}", rows, notes)


def unescaped(cell: str) -> str:
    """Return a cell of WebAnno without the backslashes before special characters."""
    return re.sub(r"\\(.)", r"\1", cell)


# ---- files


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without its byte-order mark; raise Unusable if it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(f"{path} is not UTF-8; convert it with iconv") from error


def convert_brat(path: Path) -> Converted:
    """Return a row for each line of the documents of brat: one, or all of a folder."""
    notes: dict[str, list[str]] = defaultdict(list)
    rows = []
    files = sorted(path.glob("**/*.ann")) if path.is_dir() else [path.with_suffix(".ann")]
    if not files:
        raise Unusable("it is a folder without .ann files of brat")
    for file in files:

        def note(what: str, place: str = str(file)) -> None:
            notes[what].append(place)

        text = read_text(file.with_suffix(".txt"))
        spans: list[list[Any]] = []
        for line in read_text(file).splitlines():
            if not line.startswith("T"):
                continue
            _, place, passage = line.split("\t")
            label, *numbers = place.split(" ")
            if len(numbers) != 2:
                note("a span is left out: it has several parts")
                continue
            start, end = map(int, numbers)
            if text[start:end].split() != passage.split():
                raise Unusable(
                    f"{file} has {passage!r} where its .txt has {text[start:end]!r}: are the two of one version, with "
                    "the same line ends?"
                )
            spans.append([start, end, label])
        for match in re.finditer(r"[^\r\n]*\S[^\r\n]*", text):
            first, last = match.span()
            if any(start < last < end for start, end, _ in spans):
                note("a span is left out: it goes on in another line")
            inside = [[a - first, b - first, label] for a, b, label in spans if first <= a and b <= last]
            rows.append({"text": match[0], "spans": without_overlaps(inside, note)})
    return Converted("brat, a row for each line", rows, notes)


def rows_of(path: Path, text: str) -> list[Row] | None:
    """Return the rows of JSON, of JSON lines or of a csv; None for other files."""
    if path.suffix.lower() == ".csv":
        records = [cells for cells in csv.reader(text.splitlines(keepends=True)) if cells]
        if records and not {"text", "question"} & {*records[0]} and len(records[0]) > 3:  # MMLU has no header
            records.insert(0, ["question", *LETTERS[: len(records[0]) - 2], "answer"])
        return [dict(zip(records[0], cells, strict=False)) for cells in records[1:]]
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = [json.loads(line) for line in text.split("\n") if line.strip()]
    rows = []
    for row in value if isinstance(value, list) else [value]:
        is_article = isinstance(row, dict) and isinstance(row.get("questions"), list)
        if is_article:  # RACE as distributed: an article with its questions
            parts = zip(row["questions"], row["options"], row["answers"], strict=True)
            rows += [{"article": row["article"], "question": q, "options": o, "answer": a} for q, o, a in parts]
        else:
            rows.append(row)
    return rows


FORMS: dict[str, Callable[[Row, Note], Row]] = {
    "texts with spans": spans_row,
    "words with tags": tags_row,
    "questions with choices": question_row,
    "texts with classes": classes_row,
}
"""Name of a form -> function that converts a row to the form, or raises `Unusable`."""


def convert_as(form: str, rows: Sequence[Row], path: Path) -> Converted:
    """Convert the rows that can be converted to a form, a name of `FORMS`, and note the others."""
    notes: dict[str, list[str]] = defaultdict(list)
    converted = []
    for number, row in enumerate(rows, start=1):

        def note(what: str, place: str = f"{path} row {number}") -> None:
            notes[what].append(place)

        try:
            converted.append(FORMS[form](without_label_studio(row, note), note))
        except Unusable as reason:
            note(f"a row is left out: {reason}")
        except (LookupError, AttributeError, TypeError, ValueError):
            note("a row is left out: it has another form")
    return Converted(form, converted, notes)


def convert(path: Path, word: int, label: int) -> Converted:
    """Convert a file, or a folder of brat; raise Unusable if its form is unknown.

    Args:
        word, label: see `convert_columns`.
    """
    if path.is_dir() or path.with_suffix(".ann").is_file():
        return convert_brat(path)
    text = read_text(path)
    if text.startswith("#FORMAT=WebAnno"):
        return convert_webanno(text, path)
    rows = rows_of(path, text)
    if rows is None:
        return convert_columns(text, path, word, label)
    return max((convert_as(form, rows, path) for form in FORMS), key=lambda converted: len(converted.rows))


# ---- the command


def labels_of(row: Row) -> Iterator[str]:
    """Yield the labels of a row: of each span, of each entity, or of the text."""
    if "spans" in row:
        yield from (label for _, _, label in row["spans"])
    elif "tags" in row:
        for before, tag in pairwise(["O", *row["tags"]]):
            is_inside = tag[:2] in ("I-", "E-", "L-") and before[2:] == tag[2:]
            if tag != "O" and not is_inside:
                yield tag[2:] if tag[1:2] == "-" else tag
    else:
        label = row.get("label", "(none)")
        yield from map(str, label if isinstance(label, list) else [label])


def show(converted: Converted, path: Path) -> None:
    """Print what a file was converted to: form, number of rows, labels, notes and the first rows."""
    labels = Counter(label for row in converted.rows for label in labels_of(row))
    common = ", ".join(f"{label} {number}" for label, number in labels.most_common(20))
    print(f"{path}: {converted.form}")
    print(f"  {len(converted.rows)} rows; {len(labels)} labels: {common}{' ...' if len(labels) > 20 else ''}")
    for what, places in converted.notes.items():
        print(f"  {what}{f' ({len(places)}, first: {places[0]})' if places else ''}")
    for row in converted.rows[:3]:
        print(f"  {json.dumps(row, ensure_ascii=False):.300}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Convert annotations of other programs into rows that electra reads.")
    parser.add_argument("inputs", nargs="+", type=Path, metavar="INPUT", help="files, or folders of brat")
    parser.add_argument("output", type=Path, metavar="OUTPUT.jsonl", help="a new file")
    parser.add_argument("--word_column", type=int, default=0, help="number of the column of words, from 0")
    parser.add_argument("--label_column", type=int, default=-1, help="number of the column of labels, -1 for the last")
    options = parser.parse_args(argv)
    if options.output.suffix != ".jsonl" or options.output.exists():
        parser.error(f"the output {options.output} must be a new file with the ending .jsonl")
    rows: list[Row] = []
    for path in options.inputs:
        try:
            converted = convert(path, options.word_column, options.label_column)
        except (Unusable, OSError, ValueError) as reason:
            parser.error(f"{path} cannot be converted: {reason}")
        if not converted.rows:
            reasons = "; ".join(converted.notes)
            parser.error(f"{path}: no row could be converted ({reasons}); the forms stand at the head of this program")
        usual_tags(converted)
        show(converted, path)
        rows += converted.rows
    unfinished = options.output.with_suffix(".unfinished")
    unfinished.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    unfinished.replace(options.output)
    print(f"{len(rows)} rows are in {options.output}; look at them before you train on them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
