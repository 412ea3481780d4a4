"""`--out` is a folder that is not, or not only, a run's: nothing that a run did not write is ever removed or changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from benchmarks.campaign.case import Kind, Plan, Result
from benchmarks.campaign.outcome import judge_end, judge_kept, shown_line, snapshot
from benchmarks.campaign.process import run
from benchmarks.campaign.runs import CONFIG, arguments, undisturbed_run

PLACES = (
    *("foreign config", "run with foreign files", "link to a folder", "links inside", "current folder"),
    *("parent folder", "a file", "name of 300", "empty name", "surrogate", "nested", "home", "no rights", "run and current"),
)  # fmt: skip
FLAGS = ((), ("--overwrite",), ("--overwrite",), ("--resume",), ("--resume", "--overwrite"))
MINE = {
    "thesis.txt": "mine",
    "data/rows.csv": "a,b",
    "checkpoints/mine.txt": "mine",
    "images/cat.png": "cat",
}


def draw(random: Random) -> Plan:
    return {"place": random.choice(PLACES), "flags": list(random.choice(FLAGS))}


def carry_out(plan: Plan, folder: Path) -> Result:
    home = folder / "home"
    home.mkdir()
    work, out = home, "p"
    place = plan["place"]
    if place in ("run with foreign files", "run and current", "links inside"):
        shutil.copytree(undisturbed_run("plain") / "run", home / "p", symlinks=True)
    if place == "a file":
        (home / "p").write_text("mine")
    elif place == "name of 300":
        out = "x" * 300
    elif place == "empty name":
        out = ""
    elif place == "surrogate":
        out = "a\udcffb"
    elif place == "nested":
        out = "p/q/r/../../s"
    elif place == "home":
        out = "~"
    else:
        _fill(home / "p")
    if place == "foreign config":
        (home / "p/config.yaml").write_text("model: resnet\n")
    elif place == "link to a folder":
        (home / "p").rename(home / "q")
        (home / "p").symlink_to("q")
        (home / "q/config.yaml").write_bytes(CONFIG.read_bytes())
    elif place == "links inside":
        _fill(home / "elsewhere")
        shutil.rmtree(home / "p/images")
        os.symlink("../elsewhere", home / "p/images")
        os.symlink("../../elsewhere", home / "p/checkpoints/step_5")
    elif place == "current folder":
        work, out = home / "p", "."
        (home / "p/config.yaml").write_bytes(CONFIG.read_bytes())
    elif place == "run and current":
        work, out = home / "p", "."
    elif place == "parent folder":
        work, out = home / "p/data", ".."
        (home / "p/config.yaml").write_bytes(CONFIG.read_bytes())
    mine = {name: content for name, content in snapshot(home).items() if _is_mine(name, plan)}
    command = [*arguments("plain")[:-1], out, *plan["flags"]]
    if place == "no rights":
        (home / "p").chmod(0o500)  # root may write all the same
    ended = run(command, work, log=folder / "log")
    findings = judge_end(ended) + judge_kept(home, mine)
    label = f"{place} {' '.join(plan['flags'])}"
    return Result(findings=tuple(findings), shown=f"{label}: {ended.code} {shown_line(ended)}")


def _fill(folder: Path) -> None:
    for name, content in MINE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def _is_mine(name: str, plan: Plan) -> bool:
    """Whether a file is the user's: everything, but for what the undisturbed run wrote."""
    if "run" not in plan["place"].split() and plan["place"] != "links inside":
        return True
    return name.endswith(tuple(MINE)) or name.startswith("elsewhere")


FOLDERS = Kind(
    name="folders",
    doc="--out is a folder with other files, a link, the current folder, a file, no good name",
    draw=draw,
    run=carry_out,
    share=0.6,
)
