"""The built site: files outside docs/ are in it, and nothing is loaded from another host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("material", reason="the extra docs is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = ["-W", "error", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = subprocess.run(
        [sys.executable, *command, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_linked_source_files_and_results_are_pages(site: Path) -> None:
    source = (site / "repository/vlrft/trainer/train.py.html").read_text(encoding="utf-8")
    assert "train_stage" in source
    walk = (site / "explanation/one_step.html").read_text(encoding="utf-8")
    assert 'href="../repository/vlrft/trainer/train.py.html"' in walk
    assert (site / "repository/benchmarks/results/vs_trl.html").exists()
    assert (site / "repository/benchmarks/results/flat_memory.svg").exists()


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"?(https?:[^\" >]+)", text)
        loaded += re.findall(r"<link[^>]*\shref=\"?(https?:[^\" >]+)", text)
        assert loaded == [], page
