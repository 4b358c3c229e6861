"""Run examples/electra.ipynb in an empty folder, and keep its outputs in the file.

python -m docs.notebook
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "electra.ipynb"


def execute(text: str, folder: Path) -> "NotebookNode":
    """Run a notebook in a folder, and return it with the outputs of its cells, but for what goes to stderr.

    Args:
        text: content of the notebook's file.
    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails.
    """
    import nbclient
    import nbformat

    notebook = nbformat.reads(text, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=3600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def main() -> None:
    argparse.ArgumentParser(description="Run examples/electra.ipynb, and keep its outputs in the file.").parse_args()
    import nbformat

    with tempfile.TemporaryDirectory() as folder:
        notebook = execute(NOTEBOOK.read_text(encoding="utf-8"), Path(folder))
    NOTEBOOK.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
