"""ALFWorld on the real engine: find, clean, heat, cool, place and look at objects in rooms described in text.

Needs `pip install 'vlrft[alfworld]'`, and games: those of ALFRED, or those that `vlrft data prepare alfworld` generates.
The protocol and the prompt are those of verl-agent (GiGPO, arXiv 2505.10978).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from vlrft.grading.metrics import accuracy, accuracy_by_tag
from vlrft.schema import Env, Metric, Record, Sample, Task

from .families import SPLITS
from .folder import load
from .options import Options

SHARES = ("valid", "admissible")  # of an episode's turns


def make_env(sample: Sample) -> Env:
    from .env import AlfworldEnv

    return AlfworldEnv(sample)


def gold(sample: Sample) -> tuple[str, ...]:
    """The commands of an expert, each as the completion of a turn."""
    from .experts import expert_commands
    from .renaming import renaming_of

    names = renaming_of(sample.id, sample.info["copy"])
    commands = [*map(names.text, expert_commands(sample, sample.info["expert"]))]
    thoughts = think(commands) if sample.info["thoughts"] else [""] * len(commands)
    return tuple(
        f"<think>{thought}</think><action>{command}</action>"
        for thought, command in zip(thoughts, commands, strict=True)
    )


def think(commands: Sequence[str]) -> list[str]:
    """The thing that an episode takes, once a command: with its number where the command names it."""
    thing = next((c.split()[1] for c in commands if c.startswith("take ")), "")
    words = [command.split() for command in commands]
    return [" ".join(w[w.index(thing) :][:2]) if thing in w else thing for w in words]


def generate(split: str, count: int, seed: int, folder: Path, options: Options) -> Iterator[str]:
    from .generation import generate

    return generate(split, count, seed, folder, options.families)


def metrics(records: Sequence[Record], grader: str) -> Mapping[str, Metric]:
    """Success, over all games and by family; for the strict grader also the number of turns of an episode, the share of
    turns with a readable action, and the share with an admissible one."""
    metrics = {"success": accuracy(records, grader), **accuracy_by_tag(records, grader, "kind")}
    if grader == "strict":
        for name in ("steps", *SHARES):
            values = _means(records, name)
            if values:
                metrics[name] = Metric(values=values, share=name in SHARES)
    return metrics


def _means(records: Sequence[Record], score: str) -> tuple[float, ...]:
    """The mean of a score over the episodes of each sample; empty if no record has it."""
    by_sample: dict[str, list[float]] = {}
    for record in records:
        value = record.scores.get(score)
        if value is not None:
            by_sample.setdefault(record.id, []).append(value)
    return tuple(map(fmean, by_sample.values()))


task = Task(
    name="alfworld",
    doc="ALFWorld: household tasks in text, many turns, on the real engine. Games are generated.",
    options=Options,
    splits=SPLITS,
    load=load,
    rewards={},
    graders={"strict": ("won",)},
    gold=gold,
    metrics=metrics,
    env=make_env,
    env_scores=("won", "steps", "valid", "admissible"),
    generate=generate,
)
