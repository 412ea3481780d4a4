"""The header of a run: model, device, data, rewards, steps, folder and seed, before the first step."""

from __future__ import annotations

import torch

from vlrft.config.shipped import package_version
from vlrft.data import RowSamples
from vlrft.policy.quantization import plain_like
from vlrft.rollout.task import LoadedTask
from vlrft.trainer.run import Run
from vlrft.trainer.stage import Stage

WIDTH = 9  # of the names of the lines
MAX_STAGES = 4  # that have a line of their own
MAX_NOTES = 2


def header(run: Run) -> list[str]:
    """The lines."""
    lines = [
        ("run", f"{run.out}, {_beginning(run)}, vlrft {package_version()}"),
        ("policy", _policy(run)),
        ("device", _device(run)),
        *_data(run),
        *_stages(run),
        ("eval", _evaluation(run)),
        ("memory", run.memory),
        *zip(("disk", *[""] * len(run.disk)), run.disk, strict=False),
    ]
    return [f"{name:<{WIDTH}}{text}" for name, text in lines]


def _beginning(run: Run) -> str:
    start = (
        f"continued after step {run.step} of {run.last_step}" if run.step else "from the beginning"
    )
    return f"{start}, seed {run.config.seed}"


def _policy(run: Run) -> str:
    config, model = run.config.policy, run.policy.model
    sizes = {name: plain_like(weight).numel() for name, weight in model.named_parameters()}
    trained = sum(sizes[name] for name in run.policy.trained_names)
    name = config.adapter or config.model or "built here"
    share = "all trained" if trained == sum(sizes.values()) else f"{_count(trained)} trained"
    held = "" if run.policy.quantization == "none" else f" on {run.policy.quantization} weights"
    adapters = f" (LoRA{held})" if run.policy.has_lora else ""
    return f"{name}, {model.config.model_type}, {_count(sum(sizes.values()))} parameters, {share}{adapters}"


def _device(run: Run) -> str:
    dtype = str(run.policy.dtype).removeprefix("torch.")
    device = run.policy.device
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    count = torch.get_num_threads()
    threads = f", {count} thread{'s'[: count != 1]} (results depend a little on their number)"
    ranks = f", {run.ranks.size} ranks" if run.ranks.size > 1 else ""
    return f"{where}, {dtype}{ranks}{threads if device.type == 'cpu' else ''}"


def _data(run: Run) -> list[tuple[str, str]]:
    """The task with the number of its samples, then what was chosen when its rows were read."""
    counts = list(dict.fromkeys(f"{len(s.settings.loaded.samples):,}" for s in run.stages))
    test = (
        "" if run.eval_task is None else f"; {run.config.eval.split} {len(run.eval_task.samples):,}"
    )
    place = run.config.task.options.get("data")
    source = "" if place is None else f", from {place}"
    lines = [
        ("data", f"{run.config.task.name}: train {' and '.join(counts)}{test} samples{source}")
    ]
    loaded = [s.settings.loaded for s in run.stages]
    read = [task.samples for task in (*loaded, *filter(None, [run.eval_task]))]
    notes = [note for samples in read if isinstance(samples, RowSamples) for note in samples.notes]
    return lines + [("", note) for note in list(dict.fromkeys(notes))[:MAX_NOTES]]


def _stages(run: Run) -> list[tuple[str, str]]:
    lines = [(_short(s.settings.name), _stage(s)) for s in run.stages[:MAX_STAGES]]
    if (more := len(run.stages) - MAX_STAGES) > 0:
        lines.append(("", f"and {more} more stages, to step {run.last_step}"))
    if run.config.permute_rewards:
        lines.append(("control", "rewards are permuted: this run must not learn"))
    return lines


def _stage(stage: Stage) -> str:
    settings, config = stage.settings, stage.settings.config
    count = settings.last - settings.first
    steps = f"{count:,} step{'s'[: count != 1]} of {config.prompts_per_step} prompts"
    lr = f"lr {config.update.lr:g}"
    if settings.algorithm.answers != "sampled":
        return f"{steps}, gold answers, {lr}"
    return f"{steps} x {config.rollout.group_size} completions, {lr}; rewards: {_rewards(settings.loaded)}"


def _rewards(loaded: LoadedTask) -> str:
    rewards = [f"{reward.name} {reward.weight:g}" for reward in loaded.rewards]
    return ", ".join([*(["the environment's"] if loaded.task.env is not None else []), *rewards])


def _evaluation(run: Run) -> str:
    if run.eval_task is None:
        return f"none: the data have no split {run.config.eval.split}"
    decoding = run.config.eval
    every = f", every {decoding.every} steps" if decoding.every else ""
    count = len(run.eval_task.head(decoding.limit))
    return f"{count:,} samples of {decoding.split}, before the first stage and after each{every}"


def _short(name: str) -> str:
    return name if len(name) < WIDTH else f"{name[: WIDTH - 2]}…"


def _count(number: int) -> str:
    """A number of parameters: `1.2 M`."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)
