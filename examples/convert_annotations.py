"""Convert what annotation tools export into the forms that electra reads, as jsonl.

    python examples/convert_annotations.py annotated.json train.jsonl

- Spans of doccano, Prodigy, Label Studio (JSON, JSON-MIN, csv), spaCy, NER Annotator, Dataturks and brat become rows
  with `text` and `spans`.
- Words of WebAnno TSV 3, OntoNotes (CoNLL-2012), CoNLL-U, CoNLL-U Plus, and files of columns with a header, a column
  that counts or nested entities, and tables with a word in each row (`Sentence #`), with all labels in one text, or
  with Python's lists become rows with `tokens` and `tags`. Labels are written as B-LOC, I-LOC and O, also those that
  were `B_LOC`, `LOC-B`, `0`, BMES, or brackets such as `(LOC*`.
- Classes of doccano, Prodigy, Label Studio, spaCy and fastText become rows with `text` and `label`.
- Questions of ARC, CommonsenseQA, OpenBookQA, RACE, MMLU, HellaSwag, and those with columns such as option1, choice1,
  A or a become rows with `question`, `choices` and `label`.

This program guesses. So it prints what it made: the form, the number of rows and labels, what it left out or changed,
and the first three rows. Look at them. It needs Python's standard library alone.
"""

import argparse
import ast
import csv
import io
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
Note = Callable[[str], None]
"""A function that records what was left out or changed in a row."""

TEXTS = ("text", "data", "content", "sentence", "document")
"""Names of the column of a text, by preference."""
TOKENS = ("tokens", "words", *TEXTS)
SPANS = ("spans", "entities", "label", "labels", "annotations", "annotation", "ner", "denotations")
CLASSES = ("accept", "cats", "label", "labels", "category", "categories", "class", "sentiment", "intent", "choice")
TAGS = re.compile(r"(tag|label|ner)s?$", re.IGNORECASE)
SENTENCE_NUMBER = re.compile(r"sent(ence)?[ _]?(#|id|idx|index|no|nr|num|number)?|sid", re.IGNORECASE)
WORD = re.compile(r"words?|tokens?|form", re.IGNORECASE)
SPAN_KEYS = {
    "start": ("start", "start_offset", "startOffset", "begin", "beginOffset", "start_char"),
    "end": ("end", "end_offset", "endOffset", "stop", "end_char"),
    "label": ("label", "labels", "type", "tag", "entity", "entity_group", "entity_type", "name", "category", "obj"),
}
"""Part of a span -> its names in the objects of annotation tools."""
WORD_NUMBER = re.compile(r"[0-9]+([-.][0-9]+)?")
COMMENT = re.compile(r"#(\s|$|begin document|end document)")
LABEL_STUDIO_COLUMNS = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement"}
CHOICE = re.compile(r"(?:option|choice|answer|ending|sol|opt)?[ _]?([0-9]|[A-Fa-f])")
"""The name of a column with one choice: its number or letter."""


class OtherForm(Exception):
    """A row that has another form."""


class Unusable(Exception):
    """A row that has the form, but cannot be converted; the message says why."""


class Converted(NamedTuple):
    """The rows of a file in electra's form, the form of the file, and the places of what was left out or changed."""

    form: str
    rows: list[Row]
    notes: dict[str, list[str]]


def parsed(value: Any) -> Any:
    """Return the list or mapping that a text writes in JSON or Python; return other values as they are."""
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{", "("):
        return value
    for read in (json.loads, ast.literal_eval):
        try:
            literal = read(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(literal, list | dict | tuple):
            return [*literal] if isinstance(literal, tuple) else literal
    return value


def text_of(row: Row) -> str:
    lower = {name.lower(): value for name, value in row.items()}
    text = next((lower[name] for name in TEXTS if isinstance(lower.get(name), str) and lower[name].strip()), None)
    if text is None:
        raise OtherForm
    return text


# ---- spans of characters


def spans_row(row: Row, note: Note) -> Row:
    text = text_of(row)
    lists = [value for name in SPANS if isinstance(value := parsed(row.get(name)), list | dict)]
    value = lists[0] if lists else None
    if isinstance(value, dict) and value and all(isinstance(part, list) for part in value.values()):
        value = [dict(zip(value, parts, strict=False)) for parts in zip(*value.values(), strict=False)]
    if not isinstance(value, list) or "accept" in row:
        raise OtherForm
    check_answer(row)
    spans = []
    for span in value:
        try:
            spans.append(span_of(span, text, note))
        except Unusable as reason:
            note(f"a span is left out: {reason}")
    return {"text": text, "spans": without_overlaps(spans, note)}


def span_of(span: Any, text: str, note: Note) -> list[Any]:
    """Return [start, end, label] of a span in a form of an annotation tool."""
    passage = None
    is_inclusive = False
    start: Any
    end: Any
    if isinstance(span, dict):
        values = dict(span)
        for inner in (span.get("value"), span.get("span")):  # Label Studio, PubAnnotation
            values |= inner if isinstance(inner, dict) else {}
        points = span.get("points")
        if isinstance(points, list) and points and isinstance(points[0], dict):  # Dataturks
            values |= points[0]
            is_inclusive = True
        start, end, label = (
            next((values[key] for key in keys if values.get(key) is not None), None) for keys in SPAN_KEYS.values()
        )
        passage = values.get("text")
    elif isinstance(span, list | tuple) and len(span) >= 3:
        start, end, label = (
            span[:3] if not isinstance(span[0], str) or span[0].isdecimal() else (span[1], span[2], span[0])
        )
    else:
        raise OtherForm
    if isinstance(label, list):
        if len(label) > 1:
            note("a span has several labels, the first is taken")
        label = label[0] if label else None
    try:
        start, end = int(start), int(end) + is_inclusive
    except (TypeError, ValueError):
        raise OtherForm from None
    if not isinstance(label, str) or not label:
        raise Unusable("it has no label")
    if isinstance(passage, str) and passage.strip() and text[start:end].strip() != passage.strip():
        if text.count(passage) != 1:
            raise Unusable("its text is not at its place")
        note("a span is moved to the only place of its text; its numbers may count bytes")
        start = text.index(passage)
        end = start + len(passage)
    while start < end <= len(text) and text[start].isspace():
        start += 1
    while start < end <= len(text) and text[end - 1].isspace():
        end -= 1
    if not 0 <= start < end <= len(text):
        raise Unusable("it is empty, or not inside the text")
    return [start, end, label]


def without_overlaps(spans: Sequence[list[Any]], note: Note) -> list[list[Any]]:
    """Return the spans in order, of those that overlap the longest."""
    kept: list[list[Any]] = []
    for span in sorted(spans, key=lambda span: span[0] - span[1]):
        if any(span[0] < longer[1] and longer[0] < span[1] for longer in kept):
            note("a span is left out: it overlaps with a longer one")
        else:
            kept.append(span)
    return sorted(kept)


def check_answer(row: Row) -> None:
    if row.get("answer") in ("reject", "ignore") and not row.keys().isdisjoint(
        ("_task_hash", "spans", "label", "accept")
    ):
        raise Unusable(f"the answer of the annotator is '{row['answer']}'")


def without_label_studio(row: Row, note: Note) -> Row:
    """Return a task of Label Studio as a row with a text, and its spans or choices; return other rows as they are."""
    data = row.get("data")
    annotations = row.get("annotations", row.get("completions"))
    if not isinstance(data, dict) or not isinstance(annotations, list):
        return row
    kept = [
        annotation
        for annotation in annotations
        if isinstance(annotation, dict) and not annotation.get("was_cancelled")
    ]
    if not kept:
        raise Unusable("it has no annotation, or its annotator has skipped it")
    if len(kept) > 1:
        note("a row has several annotations, the first is taken")
    texts = [value for value in data.values() if isinstance(value, str)]
    text = data.get("text", texts[0] if texts else "")
    results = [result for result in kept[0].get("result") or [] if isinstance(result, dict)]
    answers = [
        result["value"] for result in results if result.get("type") in ("choices", "rating", "number", "taxonomy")
    ]
    if answers:
        return {"text": text, "label": next(iter(answers[0].values()))}
    return {"text": text, "spans": [result for result in results if result.get("type", "labels") == "labels"]}


# ---- words


def tags_row(row: Row, note: Note) -> Row:
    lower = {name.lower(): name for name in row}
    words = next((row[lower[name]] for name in TOKENS if lower.get(name) and row[lower[name]]), None)
    names = [name for name in row if TAGS.search(name) and row[name] is not None]
    if words is None or not names:
        raise OtherForm
    name = next((name for name in names if "ner" in name.lower()), names[-1])
    words, tags = parsed(words), parsed(row[name])
    is_text = isinstance(words, str)
    if is_text != isinstance(tags, str):
        raise OtherForm
    words, tags = (value.split() if isinstance(value, str) else value for value in (words, tags))
    are_lists = isinstance(words, list) and isinstance(tags, list) and all(isinstance(word, str) for word in words)
    if not are_lists or (is_text and (len(tags) < 2 or len(words) != len(tags))):
        raise OtherForm
    if len(names) > 1:
        note(f"the labels are those of the column '{name}', not of {', '.join(set(names) - {name})}")
    if len(words) != len(tags):
        raise Unusable("it has other numbers of words and labels")
    if not all(isinstance(tag, str) for tag in tags):
        raise Unusable("its labels are numbers, whose names are elsewhere")
    return {"tokens": words, "tags": tags}


def grouped_words(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each sentence of a table with a word in each row; return other rows as they are."""
    first = rows[0]
    word = next((name for name in first if WORD.fullmatch(name.strip())), None)
    number = next((name for name in first if SENTENCE_NUMBER.fullmatch(name.strip())), None)
    tags = [name for name in first if TAGS.search(name.strip())]
    if not word or not number or not tags or not isinstance(first[word], str) or parsed(first[word]) != first[word]:
        return [*rows]
    name = next((name for name in tags if "ner" in name.lower()), tags[-1])
    sentences: list[Row] = []
    current: Any = object()
    for row in rows:
        sentence = row.get(number)
        if sentence not in (None, "", "nan") and sentence != current:
            current = sentence
            sentences.append({"tokens": [], "tags": []})
        sentences[-1]["tokens"].append(str(row[word]))
        sentences[-1]["tags"].append(str(row[name]))
    return sentences


BRACKETED = re.compile(r"\*\)?|\((?P<type>[^()*]+)(?:\*\)?|\))")
"""A label with brackets, as OntoNotes writes spans: (LOC* begins one, *) ends one, (LOC) is one word."""
SEPARATOR = "[-_/:|.\u2010-\u2015\u2212]"
SPELLINGS = (
    re.compile(r"(?P<prefix>[BIESLU])-(?P<type>.+)"),
    re.compile(r"(?P<prefix>[BMIESW])-(?P<type>.+)"),  # BMES, BMEWO
    re.compile(rf"(?P<prefix>[BIESLU]){SEPARATOR}(?P<type>.+)"),
    re.compile(rf"(?P<prefix>[bieslu]){SEPARATOR}(?P<type>.+)"),
    re.compile(rf"(?P<type>.+){SEPARATOR}(?P<prefix>[BIESLU])"),
)
"""Spellings of labels with a prefix; a file has the first one that fits all of its labels."""
OUTSIDES = ("O", "0", "o", "_", "-", "*")
"""Labels that stand for O, where all other labels have a prefix."""


def usual_tags(rows: Sequence[Row], notes: dict[str, list[str]]) -> None:
    """Replace labels in brackets, and other spellings, by B-LOC, I-LOC and O."""
    tagged = [row for row in rows if "tags" in row]
    labels = set(chain.from_iterable(row["tags"] for row in tagged))
    if any("(" in label for label in labels) and all(map(BRACKETED.fullmatch, labels)):
        for row in tagged:
            row["tags"] = without_brackets(row["tags"])
        notes["labels in brackets, such as (LOC*, are written as B-LOC and I-LOC"] = []
        return
    outside = next((label for label in OUTSIDES if label in labels), "O")
    inside = labels - {outside}
    for expression in SPELLINGS:
        matches = [match for match in map(expression.fullmatch, sorted(inside)) if match]
        prefixes = {match["prefix"].upper() for match in matches}
        if not matches or len(matches) < len(inside) or (expression is not SPELLINGS[0] and "B" not in prefixes):
            continue
        same_as = {"M": "I", "W": "S"} if expression is SPELLINGS[1] else {}
        usual = {outside: "O"}
        for match in matches:
            prefix = match["prefix"].upper()
            usual[match[0]] = f"{same_as.get(prefix, prefix)}-{match['type']}"
        changed = sorted(label for label, written in usual.items() if label in labels and label != written)
        if changed:
            notes[f"the label '{changed[0]}' is written as '{usual[changed[0]]}'"] = []
        for row in tagged:
            row["tags"] = [usual[tag] for tag in row["tags"]]
        return


def without_brackets(tags: Sequence[str]) -> list[str]:
    usual = []
    kind = ""
    for tag in tags:
        match = BRACKETED.fullmatch(tag)
        begun = match["type"] if match and not kind else None
        kind = begun or kind
        usual.append(f"B-{begun}" if begun else f"I-{kind}" if kind else "O")
        if tag.endswith(")"):
            kind = ""
    return usual


# ---- classes


def classes_row(row: Row, note: Note) -> Row:
    text = text_of(row)
    check_answer(row)
    lower = {name.lower(): value for name, value in row.items()}
    label = next((lower[name] for name in CLASSES if lower.get(name) not in (None, "")), None)
    if label is None and {"lead_time", "annotator"} & row.keys():  # JSON-MIN: the name of the question
        answers = [value for name, value in row.items() if name not in LABEL_STUDIO_COLUMNS and value != text]
        label = answers[0] if len(answers) == 1 else None
    label = parsed(label)
    if isinstance(label, dict) and [*label] == ["choices"]:
        label = label["choices"]
    elif isinstance(label, dict):
        label = [name for name, value in label.items() if isinstance(value, int | float) and value >= 0.5]
    if isinstance(row.get("accept"), list) and isinstance(row.get("options"), list):  # Prodigy
        names = {option.get("id"): option.get("text", option.get("id")) for option in row["options"]}
        label = [names.get(answer, answer) for answer in row["accept"]]
    values = label if isinstance(label, list) else [label]
    if label is None or not all(isinstance(value, str | int | float) for value in values):
        raise OtherForm
    return {"text": text, "label": label}


# ---- questions with choices


def question_row(row: Row, note: Note) -> Row:
    """Return question, choices and, in `answer`, what is written; `numbered_answers` turns that into a number."""
    row = {name.strip(): parsed(value) for name, value in row.items()}
    question: Any = row.get("question", row.get("question_stem"))
    choices: Any = row.get("choices", row.get("options"))
    if isinstance(question, dict):  # AllenAI
        question, choices = question.get("stem"), question.get("choices")
    if isinstance(choices, dict):
        choices = [{"text": text, "label": key} for key, text in zip(choices["label"], choices["text"], strict=True)]
    context = next(
        (row[name] for name in ("context", "article", "passage", "premise", "fact1") if row.get(name)), None
    )
    if question is None:
        question = next((row[name] for name in ("ctx", "goal", "sentence", "premise") if row.get(name)), None)
        choices = row.get("endings", choices)
        context = None if context == question else context
    if choices is None:
        letters = {name: match[1] for name in row if (match := CHOICE.fullmatch(name)) and row[name] not in (None, "")}
        choices = [
            {"text": row[name], "label": None if key.isdecimal() else key.upper()} for name, key in letters.items()
        ]
    if not isinstance(question, str) or not isinstance(choices, list) or len(choices) < 2:
        raise OtherForm
    keys: list[str] = []
    if all(isinstance(choice, dict) for choice in choices):
        keys = [str(choice["label"]) for choice in choices if choice.get("label") is not None]
        choices = [choice.get("text") for choice in choices]
    answer = next((row[name] for name in ("answerKey", "answer", "label", "correct", "gold") if name in row), None)
    converted = {"question": question, "choices": [str(choice).strip() for choice in choices], "keys": keys}
    if context:
        converted["context"] = context
    return {**converted, "answer": "" if answer is None else re.sub(r"\.0$", "", str(answer).strip())}


def numbered_answers(rows: Sequence[Row], places: Sequence[str], notes: dict[str, list[str]]) -> list[Row]:
    """Return questions with the number of the right choice as `label`, from 0, without it where it is unknown."""
    numbers = [int(row["answer"]) for row in rows if row["answer"].isdecimal() and row["answer"] not in row["keys"]]
    first = 1 if numbers and min(numbers) > 0 else 0
    if numbers:
        notes[f"answers are numbers from {first}: no answer is {0 if first else 'larger than its choices'}"] = []
    converted = []
    for row, place in zip(rows, places, strict=True):
        answer, choices = row.pop("answer"), row["choices"]
        keys = row.pop("keys") or [*"ABCDEF"[: len(choices)]]
        if answer in choices:
            label: int | None = choices.index(answer)
        elif answer.upper() in keys:
            label = keys.index(answer.upper())
        elif answer.isdecimal() and 0 <= int(answer) - first < len(choices):
            label = int(answer) - first
        elif answer.upper() in "ABCDEF"[: len(choices)] and answer:
            label = "ABCDEF".index(answer.upper())
        elif answer in ("", "-1", "nan", "?"):
            notes["a row has no answer"].append(place)
            label = None
        else:
            notes[f"a row is left out: its answer is none of its choices, such as {answer[:40]!r}"].append(place)
            continue
        converted.append(row if label is None else {**row, "label": label})
    return converted


# ---- files


def read_text(path: Path, *, newline: str = "\n") -> str:
    """Return the text of a file; `newline` takes the place of CR LF, which Windows writes."""
    raw = path.read_bytes()
    if b"\0" in raw[:1000] and raw[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise Unusable("it is no text; save it as csv or json")
    for encoding in ("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "cp1252", "latin-1"):
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding in ("cp1252", "latin-1"):
            print(f"{path} is not UTF-8; it is read as {encoding}")
        return text.replace("\r\n", newline)
    raise AssertionError


def rows_of(path: Path, text: str) -> list[Any] | None:
    """Return the rows of JSON, of Python's lists, of fastText or of a table; None for other files."""
    start = text.lstrip()
    literal = re.match(r"\s*\w+\s*=\s*(?=[\[{(])", text)
    if start[:1] in ("[", "{") or literal:
        return json_rows(text[literal.end() :] if literal else text)
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and all(line.startswith("__label__") for line in lines):
        return [fast_text(line) for line in lines]
    is_csv = path.suffix.lower() == ".csv"
    delimiter = max(",;\t|", key=lines[0].count) if lines else ","
    records = []
    if lines and delimiter in lines[0]:
        try:
            records = [cells for cells in csv.reader(io.StringIO(text), delimiter=delimiter) if any(cells)]
        except csv.Error as error:
            raise Unusable(f"it is no table ({error})") from error
    names = [name.strip() for name in records[0]] if records else []
    expected = {*TOKENS, *CLASSES, *SPANS, "question", "ctx", "word", "token"}
    is_named = not expected.isdisjoint(name.lower() for name in names)
    if is_named and (is_csv or all(line.strip() for line in text.strip().split("\n"))):
        return [dict(zip(names, cells, strict=False)) for cells in records[1:]]
    if not is_csv:
        return None
    if len(names) > 3 and all(re.fullmatch(r"[A-Fa-f1-6]", cells[-1]) for cells in records):  # ARC, MMLU
        letters = "ABCDEFGH"
        return [
            {"question": q, **dict(zip(letters, choices, strict=False)), "answer": a} for q, *choices, a in records
        ]
    raise Unusable(f"the columns {', '.join(names)[:100]} are not known")


def json_rows(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        try:
            value = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            value = parsed(text.strip())
    if isinstance(value, dict):
        lists = [
            value[name] for name in ("annotations", "data", "examples", "rows") if isinstance(value.get(name), list)
        ]
        value = lists[0] if lists and "text" not in value and not isinstance(value.get("data"), dict) else [value]
    if not isinstance(value, list):
        return None
    rows = []
    for row in value:
        if isinstance(row, list | tuple) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], dict):
            row = {"text": row[0], **row[1]}  # spaCy
        if isinstance(row, dict) and isinstance(row.get("row"), dict):
            row = row["row"]
        if isinstance(row, dict) and isinstance(row.get("questions"), list) and isinstance(row.get("options"), list):
            parts = zip(row["questions"], row["options"], row["answers"], strict=True)  # RACE as distributed
            rows += [{"article": row["article"], "question": q, "options": o, "answer": a} for q, o, a in parts]
        elif row is not None:
            rows.append(row)
    return rows


def fast_text(line: str) -> Row:
    words = line.split()
    labels = [word.removeprefix("__label__") for word in words if word.startswith("__label__")]
    return {"text": " ".join(words[len(labels) :]), "label": labels}


KINDS: dict[str, Callable[[Row, Note], Row]] = {
    "texts with spans": spans_row,
    "words with tags": tags_row,
    "questions with choices": question_row,
    "texts with classes": classes_row,
}


def convert_rows(rows: Sequence[Any], path: Path) -> Converted:
    """Return the rows in the form that most of them have."""
    tries = [convert_as(form, rows, path) for form in KINDS]
    converted, fits = max(tries, key=lambda attempt: attempt[1])
    if fits == 0:
        raise Unusable(
            f"its rows have no form that is known; the first is {json.dumps(rows[0], ensure_ascii=False):.200}"
        )
    return converted


def convert_as(form: str, rows: Sequence[Any], path: Path) -> tuple[Converted, int]:
    """Return the rows that can be converted to a form, and the number of rows that have it."""
    notes: dict[str, list[str]] = defaultdict(list)
    converted = []
    places = []
    fits = 0
    for number, row in enumerate(rows, start=1):
        place = f"{path} row {number}"

        def note(what: str, place: str = place) -> None:
            notes[what].append(place)

        try:
            if not isinstance(row, dict):
                raise OtherForm
            converted.append(KINDS[form](without_label_studio(row, note), note))
            places.append(place)
            fits += 1
        except Unusable as reason:
            note(f"a row is left out: {reason}")
            fits += 1
        except OtherForm:
            note("a row is left out: it has another form")
    if form == "questions with choices":
        converted = numbered_answers(converted, places, notes)
    if form == "texts with classes" and all(
        isinstance(row["label"], list) and len(row["label"]) == 1 for row in converted
    ):
        converted = [{**row, "label": row["label"][0]} for row in converted]
    return Converted(form, converted, notes), fits


# ---- columns, WebAnno, brat


def convert_columns(text: str, path: Path) -> Converted:
    """Return the sentences of a file with a word in each line."""
    notes: dict[str, list[str]] = defaultdict(list)
    column_names = next((match[1].split() for match in re.finditer(r"#\s*global\.columns\s*=\s*(.+)", text)), [])
    is_ontonotes = "#begin document" in text
    sentences = column_sentences(text)
    words = [row for sentence in sentences for row in sentence]
    width = max(Counter(map(len, words)).items(), key=lambda item: item[1])[0] if words else 0
    if width < 2:
        raise Unusable("it has no words with labels")
    if is_ontonotes:
        width = min(map(len, words))
    other_labels = {row[-1] for row in words if row is not words[0]}
    if not column_names and any(WORD.fullmatch(cell) for cell in words[0]) and words[0][-1] not in other_labels:
        column_names = sentences[0].pop(0)
    if all(WORD_NUMBER.fullmatch(row[0]) for sentence in sentences for row in sentence):  # CoNLL-U's 1-2 and 1.1
        sentences = [[row for row in sentence if row[0].isdecimal()] for sentence in sentences]
    sentences = [*filter(None, sentences)]
    word, label = columns_of(sentences, column_names, width, is_ontonotes=is_ontonotes, note=lambda what: notes[what])
    rows = []
    for number, sentence in enumerate(sentences, start=1):
        if any(len(row) < width or (len(row) > width and not is_ontonotes) for row in sentence):
            notes["a sentence is left out: its lines have other numbers of columns"].append(
                f"{path} sentence {number}"
            )
        else:
            rows.append({"tokens": [row[word] for row in sentence], "tags": [row[label] for row in sentence]})
    return Converted(f"columns, with words in column {word} and labels in column {label}", rows, notes)


def column_sentences(text: str) -> list[list[list[str]]]:
    """Return the cells of the lines of each sentence, without comments before it."""
    lines = text.split("\n")
    plain = [line for line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))]
    is_by_tab = all("\t" in line for line in plain)
    cut: Callable[[str], list[str]] = (lambda line: line.rstrip().split("\t")) if is_by_tab else str.split
    width, label = (len(cut(plain[0])), {cut(line)[-1] for line in plain}) if plain else (0, set())
    sentences = []
    for is_text, group in groupby(lines, key=lambda line: bool(line.strip()) and not line.startswith("-DOCSTART-")):
        sentence = [*group] if is_text else []
        while sentence and COMMENT.match(sentence[0]):
            cells = cut(sentence[0])
            if len(cells) == width and cells[-1] in label:
                break
            sentence.pop(0)
        sentences += [[cut(line) for line in sentence]] if sentence else []
    return sentences


def columns_of(
    sentences: Sequence[Sequence[Sequence[str]]],
    column_names: Sequence[str],
    width: int,
    *,
    is_ontonotes: bool,
    note: Callable[[str], Any],
) -> tuple[int, int]:
    """Return the numbers of the columns of words and labels."""
    if is_ontonotes:
        return 3, min(10, width - 1)
    columns = [[[row[n] for row in sentence if len(row) > n] for sentence in sentences] for n in range(width)]
    word = next((n for n, name in enumerate(column_names[:width]) if WORD.fullmatch(name)), None)
    if word is None:
        word = next((n for n, column in enumerate(columns[:-1]) if not counts(column)), 0)
    if width == 10 and word == 1 and not column_names:  # CoNLL-U
        return word, 3
    if "UPOS" in column_names:
        further = [n for n, name in enumerate(column_names[:width]) if ":" in name]
        return word, further[0] if further else column_names.index("UPOS")
    types = [
        {cell[2:] for sentence in column for cell in sentence if re.match("[BIESLU]-", cell)} for column in columns
    ]
    label = width - 1
    nested = [n for n in range(width) if n != word and types[n] and not types[n].isdisjoint(types[label] or types[n])]
    if nested and nested[0] != label and (types[label] or {*chain(*columns[label])} == {"O"}):
        note(f"labels of the same types are in the columns {nested + ([] if label in nested else [label])}")
        return word, nested[0]
    return word, label


def counts(column: Sequence[Sequence[str]]) -> bool:
    """Return True if a column counts words or names sentences."""
    if all(len(set(sentence)) == 1 for sentence in column):
        return max(map(len, column)) > 1
    return all(cell.isdecimal() for cell in chain(*column)) and all(
        int(before) < int(after) for sentence in column for before, after in pairwise(sentence)
    )


def convert_webanno(text: str, path: Path) -> Converted:
    """Return the sentences of WebAnno TSV 3, with the named entities, or the first layer of spans."""
    notes: dict[str, list[str]] = defaultdict(list)
    names = []
    for layer in re.findall(r"^#T_(?:SP|CH|RL)=(.+)$", text, re.MULTILINE):
        name, *features = layer.split("|")
        names += [f"{name}|{feature}" for feature in features or [""]]
    sentences = [
        [line.split("\t") for line in part.split("\n") if re.match(r"\d+-\d+\t", line)] for part in text.split("\n\n")
    ]
    sentences = [*filter(None, sentences)]
    if re.search(r"^\d+-\d+\.\d+\t", text, re.MULTILINE):
        notes["parts of words are left out"] = []
    columns = range(3, max((len(row) for sentence in sentences for row in sentence), default=3))
    used = [n for n in columns if any(len(row) > n and row[n] not in ("_", "", "*") for row in chain(*sentences))]
    entity = [n for n in used if n - 3 < len(names) and re.search(r"NamedEntity\|value", names[n - 3])]
    if not used:
        raise Unusable("it has no annotations")
    column = (entity or used)[0]
    rows = []
    for number, sentence in enumerate(sentences, start=1):
        tags = []
        before = ""
        for row in sentence:
            cell = re.sub(r"\\(.)", r"\1", row[column]) if len(row) > column else "_"
            if "|" in cell:
                notes["a word has several labels, the first is taken"].append(f"{path} sentence {number}")
            cell = cell.split("|")[0]
            kind = re.sub(r"\[\d+\]$", "", cell)
            is_inside = cell == before and cell != kind  # the same number in brackets: the same span
            tags.append("O" if kind in ("_", "*", "") else f"{'I' if is_inside else 'B'}-{kind}")
            before = cell
        rows.append({"tokens": [re.sub(r"\\(.)", r"\1", row[2]) for row in sentence], "tags": tags})
    shown = names[column - 3] if column - 3 < len(names) else f"column {column}"
    return Converted(f"WebAnno TSV, {shown}", rows, notes)


def convert_brat(path: Path) -> Converted:
    """Return a row for each line of the documents of brat: one, or all of a folder."""
    notes: dict[str, list[str]] = defaultdict(list)
    rows = []
    files = sorted(path.glob("**/*.ann")) if path.is_dir() else [path.with_suffix(".ann")]
    if not files:
        raise Unusable("it is a folder without .ann files of brat")
    for file in files:
        note = partial(lambda place, what: notes[what].append(place), str(file))
        if not file.with_suffix(".txt").is_file():
            note("a document is left out: there is no .txt beside its .ann")
            continue
        spans: list[tuple[int, int, str]] = []
        covered: list[str] = []  # the text of each span, as the .ann repeats it
        for line in read_text(file).split("\n"):
            if not line.startswith("T"):
                continue
            _, place, *repeated = line.split("\t")
            kind, *numbers = place.split(" ")
            if len(numbers) != 2:
                note("a span is left out: it has several parts")
            else:
                spans.append((int(numbers[0]), int(numbers[1]), kind))
                covered.append("".join(repeated))
        text = brat_text(file, spans, covered)
        start = 0
        for line in text.split("\n"):
            end = start + len(line)
            spans_of_line = [span for span in spans if start <= span[0] and span[1] <= end]
            if any(span[0] < end < span[1] for span in spans):
                note("a span is left out: it goes on in another line")
            if line.strip():
                moved = [[a - start, b - start, kind] for a, b, kind in spans_of_line]
                rows.append({"text": line.removesuffix("\r"), "spans": without_overlaps(moved, note)})
            start = end + 1
    return Converted("brat, a row for each line", rows, notes)


def brat_text(file: Path, spans: Sequence[tuple[int, int, str]], covered: Sequence[str]) -> str:
    """Return the text of a document of brat, with the line ends, CR LF or LF, at which its spans cover their texts."""
    for newline in ("\r\n", "\n"):
        text = read_text(file.with_suffix(".txt"), newline=newline)
        pairs = [(text[begin:end], said) for (begin, end, _), said in zip(spans, covered, strict=True) if said]
        differing = [pair for pair in pairs if pair[0].split() != pair[1].split()]
        if not differing:
            return text
    raise Unusable(
        f"{file} has {differing[0][1]!r} where its .txt has {differing[0][0]!r}: are the two of one version?"
    )


# ---- the command


def convert(path: Path) -> Converted:
    """Return the rows of a file, or of a folder of brat, in electra's form; raise Unusable if its form is unknown."""
    if path.is_dir() or path.suffix.lower() == ".ann" or path.with_suffix(".ann").is_file():
        return convert_brat(path)
    text = read_text(path)
    if text.startswith("#FORMAT=WebAnno"):
        return convert_webanno(text, path)
    rows = rows_of(path, text)
    if rows is None:
        converted = convert_columns(text, path)
    elif not rows:
        raise Unusable("it has no rows")
    else:
        converted = convert_rows(grouped_words(rows) if isinstance(rows[0], dict) else rows, path)
    return converted


def labels_of(row: Row) -> Iterator[str]:
    """Yield the labels of a row: of each span, of each entity, or of the text."""
    if "spans" in row:
        yield from (label for _, _, label in row["spans"])
    elif "tags" in row:
        for before, tag in pairwise(["O", *row["tags"]]):
            kind = tag[2:] if re.match("[BIESLU]-", tag) else tag
            is_begun = tag[:2] in ("B-", "S-", "U-") or before == "O" or (before[2:] != kind and before != tag)
            if tag != "O" and is_begun:
                yield kind
    else:
        label = row.get("label", "(none)")
        yield from map(str, label if isinstance(label, list) else [label])


def show(converted: Converted, path: Path) -> None:
    """Print what was made of a file."""
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
    options = parser.parse_args(argv)
    if options.output.suffix != ".jsonl" or options.output.exists():
        parser.error(f"the output {options.output} must be a new file with the ending .jsonl")
    rows: list[Row] = []
    for path in options.inputs:
        if not path.exists():
            parser.error(f"{path}: no such file")
        try:
            converted = convert(path)
        except Unusable as reason:
            parser.error(f"{path} cannot be converted: {reason}")
        usual_tags(converted.rows, converted.notes)
        show(converted, path)
        if not converted.rows:
            parser.error(f"{path}: no row could be converted")
        rows += converted.rows
    unfinished = options.output.with_suffix(".unfinished")
    unfinished.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    unfinished.replace(options.output)
    print(f"{len(rows)} rows are in {options.output}; look at them before you train on them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
