"""The steps of a trial, each in a process of its own: `python -m benchmarks.real_size.steps STEP NAME FOLDER` prints its result
as a line of JSON.

FOLDER/model is the model, FOLDER/small one of the same kind with a vocabulary as large and little else. A step first runs
on the small one, so that libraries and the tokenizer do not count as memory of the model.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from benchmarks.real_size.build import build, count_parameters, meta_model, write_small_files
from benchmarks.real_size.meter import Meter, free_memory, resident_bytes
from benchmarks.real_size.released import MODELS
from benchmarks.real_size.released_model import Released
from vlrft.cli.main import main as cli
from vlrft.config import Config
from vlrft.config.load import load_config
from vlrft.policy.merging import stored_shapes
from vlrft.policy.pretrained import load_tokenizer
from vlrft.reporting.run_folder.names import CHECKPOINTS, LAST
from vlrft.trainer.api.evaluate import evaluate
from vlrft.trainer.api.train import train
from vlrft.trainer.memory_plan.planner import Planner
from vlrft.vision.processor import prepare_torchvision

TRIAL = Path(__file__).with_name("trial.yaml")
SMALL_TEXT = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]},
}
SMALL_TOWER = {"depth": 1, "fullatt_block_indexes": [0]}
NEW_TOKENS = 8  # that plain transformers generates from an exported model
RUNS: Mapping[str, Sequence[str]] = {  # with their changes of the trial's settings
    "train": (),
    "train_nf4": ("policy.quantization=nf4",),
}

Result = dict[str, Any]


def shrink(released: Released) -> Released:
    """A model of the same kind whose weights hardly count."""
    tower = {**released.config["vision_config"], **SMALL_TOWER}
    width = "out_hidden_size" if "out_hidden_size" in tower else "hidden_size"
    tower[width] = SMALL_TEXT["hidden_size"]
    return replace(released, config={**released.config, **SMALL_TEXT, "vision_config": tower})


def settings(model: Path, overrides: Sequence[str] = ()) -> Config:
    return load_config(TRIAL, (f"policy.model={model}", *overrides))


def build_step(released: Released, folder: Path) -> Result:
    build(released, folder / "model")
    build(shrink(released), folder / "small")
    return {"gigabytes": sum(p.stat().st_size for p in (folder / "model").iterdir()) / 1e9}


def shapes_step(released: Released, folder: Path) -> Result:
    """Everything that needs no weights: the parameters, and the plan."""
    model = folder / "model"
    if not (model / "config.json").is_file():
        write_small_files(released, model)
    counted = count_parameters(meta_model(model))
    plans = {run: _plan(model, overrides) for run, overrides in RUNS.items()}
    names = len(stored_shapes(meta_model(model)))
    return {
        "parameters": counted,
        "published": released.parameters,
        "tensors": names,
        "plans": plans,
    }


def _plan(model: Path, overrides: Sequence[str]) -> Result:
    """Planned bytes of each phase, on this CPU."""
    config = settings(model, overrides)
    phases = Planner(config, "cpu").plans(config)[0].plan.phases
    return {p.name: {"total": p.total, "moment": p.moment, "parts": dict(p.parts)} for p in phases}


def doctor_step(released: Released, folder: Path) -> Result:
    code = cli(["doctor", str(TRIAL), f"policy.model={folder / 'model'}"])
    return {"exit": code}


def eval_step(released: Released, folder: Path) -> Result:
    return _measure(folder, lambda model, out: evaluate(model, settings(model), limit=2))


def train_step(name: str, released: Released, folder: Path) -> Result:
    """A run of `RUNS`, in the folder of its name."""

    def run(model: Path, out: Path) -> None:
        train(settings(model, RUNS[name]), out=out, overwrite=True)

    result = _measure(folder, run, name)
    lines = (folder / name / "metrics.jsonl").read_text().splitlines()
    metrics = json.loads(lines[0])
    names = ("entropy", "sampler_gap/mean", "sampler_gap/max", "grad_norm")
    merge = json.loads((_adapter(folder / name) / "merge.json").read_text())
    return {**result, "metrics": {key: metrics[key] for key in names}, "kept": merge["kept"]}


def _adapter(run: Path) -> Path:
    return run / CHECKPOINTS / LAST / "adapter"


def export_step(released: Released, folder: Path) -> Result:
    """The adapter merged again into its base: not a copy of the checkpoint's files."""
    adapter = _adapter(folder / "train")
    shutil.rmtree(folder / "exported", ignore_errors=True)
    baseline = resident_bytes()
    with Meter().running() as meter:
        code = cli(["export", str(adapter), "--out", str(folder / "exported")])
    return {"exit": code, "phases": meter.summary(baseline)}


def load_step(released: Released, folder: Path) -> Result:
    """The answer of plain transformers with the exported folder, and how many of its tensors differ from the model's. Deletes
    the folder, as large as the model."""
    prepare_torchvision()  # one built for another torch fails the import of AutoProcessor
    from transformers import AutoModelForImageTextToText, AutoProcessor

    out = folder / "exported"
    changed = same = 0
    for name in sorted(before := _tensors(folder / "model")):
        pair = [_read(place[name], name) for place in (before, _tensors(out))]
        equal = torch.equal(*pair)
        changed, same = changed + (not equal), same + equal
    model, report = AutoModelForImageTextToText.from_pretrained(
        out, dtype="auto", output_loading_info=True
    )
    processor = AutoProcessor.from_pretrained(out)
    question = {"role": "user", "content": "Which digit is this?"}
    text = processor.apply_chat_template([question], add_generation_prompt=True)
    inputs = processor(text=[text], return_tensors="pt")
    ids = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
    shutil.rmtree(out)
    return {
        "missing": len(report["missing_keys"]),
        "unexpected": len(report["unexpected_keys"]),
        "changed": changed,
        "same": same,
        "generated": int(ids.shape[1] - inputs["input_ids"].shape[1]),
        "processor": type(processor).__name__,
    }


def _tensors(folder: Path) -> dict[str, Path]:
    """The file of each tensor of a model."""
    places: dict[str, Path] = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            places |= dict.fromkeys(file.keys(), path)
    return places


def _read(path: Path, name: str) -> torch.Tensor:
    with safe_open(path, "pt") as file:
        tensor: torch.Tensor = file.get_tensor(name)
    return tensor


def _measure(folder: Path, work: Callable[[Path, Path], object], name: str = "") -> Result:
    """Bytes above the level after the same work on the small model, seconds and processor seconds, by phase."""
    work(folder / "small", folder / "small_run")
    shutil.rmtree(folder / "small_run", ignore_errors=True)
    tokenizer = load_tokenizer(str(folder / "model"))
    free_memory()
    baseline = resident_bytes()
    del tokenizer
    with Meter().running() as meter:
        work(folder / "model", folder / name)
    return {"baseline": baseline, "phases": meter.summary(baseline)}


STEPS: Mapping[str, Callable[[Released, Path], Result]] = {
    "build": build_step,
    "shapes": shapes_step,
    "doctor": doctor_step,
    "eval": eval_step,
    **{name: partial(train_step, name) for name in RUNS},
    "export": export_step,
    "load": load_step,
}


def main() -> None:
    step, name, folder = sys.argv[1:]
    start = time.perf_counter()
    result = STEPS[step](MODELS[name], Path(folder))
    result |= {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time(),
        "load": os.getloadavg()[0],
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
