"""Model folders that are damaged or hostile, to `vlrft eval` and to training: refused in one line; nothing in them runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.campaign.case import Finding, Kind, Plan, Result
from benchmarks.campaign.outcome import judge_end, name_result, shown_line
from benchmarks.campaign.process import run
from benchmarks.campaign.runs import CONFIG, undisturbed_run

TEMPLATES = (
    *("{% for", "{{ messages", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "", "{{ 1/0 }}", "{{ none.x.y }}"),
    *("{% for i in range(10**9) %}x{% endfor %}", "{{ raise_exception('\\x1b[31mno') }}", "always this", "{% include 'x' %}"),
    *("{{ messages[5].content }}", "{{ messages }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ 'x' * 10**10 }}"),
)  # fmt: skip
PICKLE = "cos\nsystem\n(S'touch EXECUTED'\ntR."
CODE = "open('EXECUTED', 'w')\n"
VALUES: tuple[Any, ...] = (
    None,
    -1,
    0,
    10**9,
    "x",
    [],
    {},
    float("nan"),
    1e308,
    True,
    "\x1b[31m",
    "../../x",
)


def draw(random: Random) -> Plan:
    kind = random.choice(
        ("json", "json", "template", "auto_map", "pickle", "weights", "missing", "cut", "junk")
    )
    return {
        "kind": kind,
        "file": random.random(),
        "key": random.random(),
        "value": random.randrange(len(VALUES)),
        "template": random.choice(TEMPLATES),
        "fill": random.choice((float("nan"), float("inf"), 1e38)),
        "train": random.random() < 0.4,
    }


def carry_out(plan: Plan, folder: Path) -> Result:
    model = folder / "model"
    source = (undisturbed_run("plain") / "run/checkpoints/last").resolve()
    shutil.copytree(source, model, ignore=shutil.ignore_patterns("trainer", "manifest.json"))
    label = SPOIL[plan["kind"]](model, plan)
    if plan["train"]:
        command = ["train", str(CONFIG), "policy.model=./model", "--out", "run", "stages.1.steps=1"]
    else:
        command = ["eval", "--model", "model", "--config", str(CONFIG), "--limit", "2"]
    ended = run(command, folder)
    findings = judge_end(ended)
    if list(folder.rglob("EXECUTED")):
        findings.append(Finding(outcome="lost", text="code of the model folder was executed"))
    if plan["kind"] in ("cut", "junk") and ended.code == 0 and "generation_config" in label:
        findings.append(Finding(outcome="wrong", text="a damaged file is passed over"))
    if plan["kind"] == "weights" and ended.code == 0 and plan["fill"] != 1e38:
        findings.append(Finding(outcome="wrong", text=f"weights of {plan['fill']} are evaluated"))
    return name_result(label, findings, f"{ended.code} {shown_line(ended)}")


def _choose(model: Path, plan: Plan, pattern: str = "*") -> Path:
    if "name" in plan:
        return model / str(plan["name"])
    files = sorted(model.glob(pattern))
    return files[int(plan["file"] * len(files))]


def _change_json(model: Path, plan: Plan) -> str:
    path = _choose(model, plan, "*.json")
    tree = json.loads(path.read_text())
    node, key = tree, ""
    places = _places(tree)
    node, key = places[int(plan["key"] * len(places))]
    node[key] = VALUES[plan["value"]]
    path.write_text(json.dumps(tree))
    return f"{path.name} {key}={VALUES[plan['value']]!r}"


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every mapping or list below the tree with one of its keys; long lists are cut."""
    items: Any = ()
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))[:5]
    return [(tree, key) for key, _ in items] + [
        p for _, value in items[:40] for p in _places(value)
    ]


def _change_template(model: Path, plan: Plan) -> str:
    (model / "chat_template.jinja").write_text(plan["template"])
    return f"template {plan['template'][:60]}"


def _add_code(model: Path, plan: Plan) -> str:
    path = _choose(model, plan, "*config.json")
    (model / "odd.py").write_text(CODE + "class Odd: pass\n")
    tree = json.loads(path.read_text())
    names = (
        "AutoConfig",
        "AutoModel",
        "AutoModelForCausalLM",
        "AutoProcessor",
        "AutoTokenizer",
        "AutoImageProcessor",
    )
    tree["auto_map"] = dict.fromkeys(names, "odd.Odd")
    path.write_text(json.dumps(tree))
    return f"auto_map in {path.name}"


def _add_pickle(model: Path, plan: Plan) -> str:
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_text(PICKLE)
    return "pickled weights"


def _fill_weights(model: Path, plan: Plan) -> str:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(model / "model.safetensors")
    name = sorted(tensors)[int(plan["key"] * len(tensors))]
    tensors[name].reshape(-1)[0] = plan["fill"]
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    return f"{name} {plan['fill']}"


def _remove(model: Path, plan: Plan) -> str:
    path = _choose(model, plan)
    path.unlink()
    return f"no {path.name}"


def _cut(model: Path, plan: Plan) -> str:
    path = _choose(model, plan)
    content = path.read_bytes()
    path.write_bytes(content[: int(plan["key"] * len(content))])
    return f"cut {path.name}"


def _write_junk(model: Path, plan: Plan) -> str:
    path = _choose(model, plan)
    path.write_bytes(bytes(range(256)))
    return f"junk in {path.name}"


SPOIL: dict[str, Callable[[Path, Plan], str]] = {
    "json": _change_json,
    "template": _change_template,
    "auto_map": _add_code,
    "pickle": _add_pickle,
    "weights": _fill_weights,
    "missing": _remove,
    "cut": _cut,
    "junk": _write_junk,
}

MODELS = Kind(
    name="models",
    doc="damaged and hostile model folders to evaluation and training",
    draw=draw,
    run=carry_out,
    share=0.8,
)
