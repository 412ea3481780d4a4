"""The family of docs/howto/model_family.md passes its suite, as one file in a copy of the library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, files, read_page

PAGE = read_page("docs/howto/model_family.md")


def test_the_page_has_the_files_that_are_run_here() -> None:
    assert set(files(PAGE)) == {"deepstack_vl.py", "test_deepstack_vl.py"}


def test_the_family_passes_the_suite(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "vlrft", tmp_path / "vlrft", ignore=shutil.ignore_patterns("__pycache__")
    )
    family, suite = files(PAGE)["deepstack_vl.py"], files(PAGE)["test_deepstack_vl.py"]
    (tmp_path / "vlrft/policy/families/deepstack_vl.py").write_text(family, encoding="utf-8")
    (tmp_path / "test_deepstack_vl.py").write_text(suite, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_deepstack_vl.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
