"""The notebook of the documentation: its source runs, and its outputs are those of that source."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from docs.notebook import cells, digest, page
from tests.docs.pages import ROOT, read_page

SOURCE = read_page("docs/notebooks/first_run.py")
SMALL = (
    (r'("steps": )\d+', r"\g<1>2"),
    (r'("(?:prompts_per_step|group_size|max_tokens|limit)": )\d+', r"\g<1>2"),
    (r'"init_scale": 4.0', '"init_scale": 4.0, "layers": 1'),
    (r"limit=100", "limit=2"),
    (r"max_tokens=10", "max_tokens=2"),
)


def test_the_code_of_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ipython = ModuleType("IPython.display")
    vars(ipython)["SVG"] = str
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    names: dict[str, object] = {}
    for kind, text in cells(SOURCE):
        if kind == "code":
            for pattern, small in SMALL:
                text = re.sub(pattern, small, text)
            exec(text, names)
    assert (tmp_path / "runs/notebook/report.html").is_file()
    assert isinstance(names["answer"], str)


def test_the_outputs_are_those_of_the_source() -> None:
    notebook = json.loads(read_page("docs/notebooks/first_run.ipynb"))
    assert notebook["metadata"]["source_sha256"] == digest(SOURCE), (
        "run python docs/notebook.py docs/notebooks/first_run.py"
    )
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        for output in cell.get("outputs", ()):
            output["text"] = "".join(output.get("text", ()))
            for kind, value in output.get("data", {}).items():
                output["data"][kind] = "".join(value)
    assert [(c["cell_type"], c["source"]) for c in notebook["cells"]] == cells(SOURCE)
    run = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in run] == list(range(1, len(run) + 1))
    outputs = [output for c in run for output in c["outputs"]]
    assert "error" not in {output["output_type"] for output in outputs}
    assert {"image/png", "image/svg+xml"} <= {kind for o in outputs for kind in o.get("data", {})}
    assert page(notebook) == read_page("docs/notebooks/first_run.md")


@pytest.mark.parametrize("name", ["first_run.ipynb", "first_run.md"])
def test_the_outputs_name_no_place_of_a_machine_and_are_small(name: str) -> None:
    text = read_page(f"docs/notebooks/{name}")
    assert not re.search(r"/(tmp|home|root|work|usr)/", text)
    assert (ROOT / "docs/notebooks" / name).stat().st_size < 200_000
