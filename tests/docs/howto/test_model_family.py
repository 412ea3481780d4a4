"""docs/howto/model_family.md shows parts of a family's file, and the claim that nothing else names a family."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, blocks, read_page

PAGE = read_page("docs/howto/model_family.md")
FAMILIES = ROOT / "vlrft/policy/families"
ELSEWHERE = """
from vlrft.testing.family import FamilyConformance


class TestElsewhere(FamilyConformance):
    name = "elsewhere"
"""
CHECKS = "recognised or transformers or greedy"


def test_the_page_shows_the_family_s_file() -> None:
    source = (FAMILIES / "qwen3_vl.py").read_text(encoding="utf-8")
    shown = [block.removeprefix("# qwen3_vl.py\n") for block in blocks(PAGE, "python")]
    assert len(shown) == 2
    assert all(block in source for block in shown)


def test_a_family_s_name_stands_nowhere_but_in_its_file_s_name(tmp_path: Path) -> None:
    """The family passes its suite under another name."""
    shutil.copytree(ROOT / "vlrft", tmp_path / "vlrft")
    families = tmp_path / "vlrft/policy/families"
    (families / "qwen3_vl.py").rename(families / "elsewhere.py")
    (tmp_path / "test_elsewhere.py").write_text(ELSEWHERE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CHECKS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
