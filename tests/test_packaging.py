"""The release: the built packages install into an empty environment and list the tasks and rewards of the folders."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from vlrft.plugins.find import reward_names, task_names

ROOT = Path(__file__).parent.parent
LIGHT = [
    "pydantic",
    "pyyaml",
    "rich",
    "jinja2",
    "numpy",
    "pillow",
]  # the dependencies of `vlrft list`, without torch


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel built from it. That the sdist names what building needs is seen when it is
    installed."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the light dependencies only."""
    where = tmp_path_factory.mktemp("venv")
    venv.create(where)
    python = where / "bin" / "python"
    install(python, "-c", str(ROOT / "constraints.txt"), *LIGHT)
    return python


def install(python: Path, *what: str) -> None:
    """Compiles nothing: a command imports a small part of what is installed."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    command = [*pip, "install", "-q", "--no-compile", *what]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_a_release_works_next_to_a_users_tasks_py(
    built: Path, empty: Path, tmp_path: Path, kind: str
) -> None:
    (package,) = built.glob(kind)
    install(empty, "--no-deps", "--force-reinstall", str(package))
    (tmp_path / "tasks.py").write_text("raise RuntimeError('somebody else')\n")
    (tmp_path / "rewards.py").write_text("raise RuntimeError('somebody else')\n")
    done = subprocess.run(
        [str(empty.parent / "vlrft"), "list", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    listing = json.loads(done.stdout)
    assert list(listing["tasks"]) == task_names()
    assert list(listing["rewards"]) == reward_names()
    shown = [str(empty.parent / "vlrft"), "show", "digits"]
    assert subprocess.run(shown, cwd=tmp_path, capture_output=True).returncode == 0


def test_the_wheel_carries_prompts_templates_and_configs(built: Path) -> None:
    import zipfile

    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        p.relative_to(ROOT)
        for d in ("tasks", "rewards", "configs")
        for p in (ROOT / d).rglob("*.*")
    }
    missing = {str(p) for p in wanted if f"vlrft/{p}" not in names and "__pycache__" not in p.parts}
    assert not missing
    assert "vlrft/reporting/html/templates/page.html" in names
    assert {"vlrft/cli/templates/reward.py", "vlrft/cli/templates/task.py"} <= names
    assert not any(n.split("/")[0] in ("tasks", "rewards", "tests") for n in names)
