"""Writes docs/reference/licences.md from the lock and the metadata of the installed packages: `python docs/licences.py`.

Run it where everything of .ci/requirements.lock is installed.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, distribution
from pathlib import Path

import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "licences.md"
LOCKED = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
COPYLEFT = re.compile(r"\bA?L?GPL|GENERAL PUBLIC")

HEADER = """\
# Licences

vlrft itself is Apache-2.0. The packages of the tested set ([constraints.txt](../../constraints.txt)), with the licence
that each states in its metadata, and what asks for it: `vlrft` itself, or an extra. torch and torchvision (BSD-3-Clause)
come in builds of their own and are not in the lock; neither are CUDA's libraries, which have NVIDIA's licence.

{warning}

| package | version | licence | asked for by |
| --- | --- | --- | --- |
"""


def locked_versions() -> dict[str, str]:
    lock = (ROOT / ".ci" / "requirements.lock").read_text(encoding="utf-8")
    return dict(LOCKED.findall(lock))


def stated_licence(package: Distribution) -> str:
    """The SPDX expression where there is one, else the classifiers, else the first words of the licence field."""
    metadata = package.metadata
    classifiers = [
        c.split(" :: ")[-1]
        for c in metadata.get_all("Classifier") or []
        if c.startswith("License :: ") and not c.endswith("OSI Approved")
    ]
    field = (metadata.get("License") or "").strip().splitlines() or [""]
    first = " ".join(re.sub("#|Copyright.*", "", " ".join(field[:3])).split())[:60]
    return (
        metadata.get("License-Expression")
        or " or ".join(classifiers)
        or first
        or file_line(package)
    )


def file_line(package: Distribution) -> str:
    """The first line of the package's licence file that says "License", for metadata without a word of it."""
    for file in package.files or []:
        if file.name.upper().startswith("LICEN"):
            lines = str(file.read_text()).splitlines()
            return next((line.strip() for line in lines if "License" in line), "not stated")
    return "not stated"


def find_required(root: Requirement) -> set[str]:
    """Canonical names of the package and of everything that it needs here."""
    seen: set[tuple[str, str]] = set()
    todo = [(root.name, extra) for extra in ["", *root.extras]]
    while todo:
        name, extra = todo.pop()
        if (canonicalize_name(name), extra) in seen or canonicalize_name(name) == "torch":
            continue
        seen.add((canonicalize_name(name), extra))
        for text in distribution(name).requires or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                todo += [(need.name, e) for e in ["", *need.extras]]
    return {name for name, _ in seen}


def askers() -> dict[str, list[str]]:
    """Canonical package name -> `vlrft` or the extras that bring it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"vlrft": project["dependencies"], **project["optional-dependencies"]}
    result: dict[str, list[str]] = {}
    for group in groups.keys() - {"all", "trackio", "wandb"}:
        names = set().union(*(find_required(Requirement(text)) for text in groups[group]))
        for name in names:
            result.setdefault(name, []).append(group)
    return {name: ["vlrft"] if "vlrft" in by else sorted(by) for name, by in result.items()}


def page() -> str:
    by, rows, copyleft = askers(), [], []
    for name, version in locked_versions().items():
        licence = stated_licence(distribution(name))
        groups = ", ".join(by.get(canonicalize_name(name), ["—"]))
        rows.append(f"| {name} | {version} | {licence} | {groups} |")
        if COPYLEFT.search(licence):
            copyleft.append(f"{name} (extra {groups})")
    warning = (
        f"Under a GPL, so look before you distribute what includes them: {', '.join(copyleft)}."
    )
    return HEADER.format(warning=warning) + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
