"""Executes docs/notebooks/NAME.py as a notebook: writes NAME.ipynb with its outputs, and NAME.md, its page of the site.

    python docs/notebook.py docs/notebooks/first_run.py

The source is Python in cells, `# %%` and `# %% [markdown]`. nbclient and ipykernel, of the extra `dev`, execute it in an empty folder.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

CELL = re.compile(r"^# %%( \[markdown\])?\n", re.M)
TIMEOUT = 1200  # seconds of a cell


def cells(source: str) -> list[tuple[str, str]]:
    """The cells of a source: ("markdown" or "code", text)."""
    _, *parts = CELL.split(source)
    found: list[tuple[str, str]] = []
    for mark, text in zip(parts[::2], parts[1::2], strict=True):
        if mark:
            found.append(("markdown", re.sub(r"^# ?", "", text, flags=re.M).strip()))
        else:
            found.append(("code", text.strip()))
    return found


def digest(source: str) -> str:
    """The hash by which a notebook names the source that it was made from."""
    return hashlib.sha256(source.encode()).hexdigest()


def execute(source: str) -> Any:
    """The executed notebook."""
    import nbformat
    from nbclient import NotebookClient

    kinds = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    made = [kinds[kind](text, id=f"cell-{k}") for k, (kind, text) in enumerate(cells(source))]
    notebook = nbformat.v4.new_notebook(cells=made)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
        )
        client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _join_streams(cell.outputs)
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "source_sha256": digest(source),
    }
    return notebook


def _join_streams(outputs: Any) -> list[Any]:
    """The outputs with the lines of a stream in one piece, and without tqdm's advice on widgets, which names a folder."""
    joined: list[Any] = []
    for output in outputs:
        stream = output.get("name")
        if stream == "stderr" and "TqdmWarning" in output["text"]:
            continue
        if stream and joined and joined[-1].get("name") == stream:
            joined[-1]["text"] += output["text"]
        else:
            joined.append(output)
    return joined


def page(notebook: Any) -> str:
    """The notebook as Markdown."""
    parts = ["<!-- Made by docs/notebook.py. -->"]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"])
            continue
        parts.append(f"```python\n{cell['source']}\n```")
        parts += [_output(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _output(output: Any) -> str:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        content = base64.b64encode(data["image/svg+xml"].encode()).decode()
        return f'<img alt="output" src="data:image/svg+xml;base64,{content}">'
    if "image/png" in data:
        return f'<img alt="output" src="data:image/png;base64,{data["image/png"].strip()}">'
    text = output["text"] if output["output_type"] == "stream" else data["text/plain"]
    return f"```text\n{text.rstrip()}\n```"


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        source = path.read_text(encoding="utf-8")
        notebook = execute(source)
        import nbformat

        nbformat.write(notebook, path.with_suffix(".ipynb"))
        path.with_suffix(".md").write_text(page(notebook), encoding="utf-8")


if __name__ == "__main__":
    main()
