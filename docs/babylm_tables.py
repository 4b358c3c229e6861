"""Write the tables of docs/babylm.md from docs/babylm.json: scores and their sources.

python -m docs.babylm_tables
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("babylm.md")
DATA = Path(__file__).with_name("babylm.json")
TASKS = {"mnli": "MNLI", "xnli": "XNLI", "sib200": "SIB-200"}
"""Key of a task in the data -> its title."""
TABLE = r"(?:^\|.*\n)+"
"""Regular expression: all lines of a table."""


def read_data() -> dict[str, Any]:
    """Return the scores and their sources, as docs/babylm.json has them."""
    data: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return data


def number(value: float) -> str:
    """Return a number with one digit behind the point, `.8` below one; 45.25 becomes 45.3."""
    return str(Decimal(str(value)).quantize(Decimal("0.1"), ROUND_HALF_UP)).removeprefix("0")


def score(row: Mapping[str, Any], task: str) -> str:
    """Return the cell of a score in percent, or of median ± standard deviation; it says if the run has collapsed."""
    value = row.get(task)
    if value is None:
        return ""
    cell = " ± ".join(map(number, value)) if isinstance(value, list) else number(value)
    return f"{cell}, collapsed" if task in row.get("collapsed", ()) else cell


def linked(text: str, row: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Return a text as a link to the scores in the repository that they are from; without one, the text alone."""
    source = data["sources"].get(row["source"])
    if source is None:
        return text
    path, view = source["path"], "blob"
    if "model" in row:  # a folder for each model
        path, view = path.partition("MODEL")[0] + row["model"], "tree"
    return f"[{text}]({source['repository']}/{view}/{source['commit']}/{path})"


def table(columns: Mapping[str, str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown.

    Args:
        columns: title -> alignment, `---` or `---:`.
        rows: cells of each row.
    """
    lines = [list(columns), list(columns.values()), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines).replace("|  ", "| ")


def results(data: Mapping[str, Any]) -> str:
    """Return the table of the scores of all networks on BabyLM's rows, with links to the scores of others."""
    columns = {"network": "---", "parameters": "---:"} | dict.fromkeys(TASKS.values(), "---:")
    rows = []
    for row in data["results"]:
        scores = (score(row, task) for task in TASKS)
        network = linked(row["network"], row, data)
        rows.append([network, row.get("parameters", ""), *scores, row.get("weights", "")])
    return table(columns | {"scored weights": "---"}, rows)


def other_rows(data: Mapping[str, Any]) -> str:
    """Return the table of the scores of MNLI on other rows than BabyLM's; several networks or seeds have a range."""
    columns = {"network": "---", "parameters": "---:", "words": "---", "rows": "---", "MNLI": "---:"}
    rows = []
    for row in data["other rows of MNLI"]:
        values = row["mnli"]
        cell = values if isinstance(values, str) else f"{number(min(values))} to {number(max(values))}"
        network = linked(row["network"], row, data)
        rows.append([network, row["parameters"], row["words"], row["rows"], cell])
    return table(columns, rows)


def page(text: str, data: Mapping[str, Any]) -> str:
    """Return the text of docs/babylm.md with its tables made anew."""
    tables = {"parameters | MNLI": results, "parameters | words | rows": other_rows}
    for columns, make_table in tables.items():
        header = rf"^\| network \| {re.escape(columns)}.*\n"
        text, count = re.subn(header + TABLE, make_table(data), text, flags=re.MULTILINE)
        assert count == 1, columns
    return text


def main() -> None:
    argparse.ArgumentParser(prog="python -m docs.babylm_tables", description=__doc__.split("\n\n")[0]).parse_args()
    data = read_data()
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), data), encoding="utf-8")


if __name__ == "__main__":
    main()
