"""The runs of the comparison: a warm-up of each family, and from its checkpoint the second stage of the quickstart, shortened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WARM_UP_STEPS = 30  # of the quickstart's 120
STEPS = 8  # of 100
SHORT = ("save.every=1000", "eval.limit=60")
FIRST = (f"stages.0.steps={WARM_UP_STEPS}", "stages.0.prompts_per_step=24", "stages.1.steps=1")
SECOND = (f"stages.0.steps={STEPS}", "stages.0.prompts_per_step=16")
LORA = ("policy.lora={}",)  # of tower and language model, merged into what is sent
ZERO_2 = ('engine={"name": "deepspeed", "stage": 2}',)
GAP = 1e-5  # nats, of the mean of a step, above which a run with vLLM stops


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run."""

    family: str
    seed: int
    engine: str = "hf"
    kind: str = ""  # what differs from the quickstart
    changes: tuple[str, ...] = ()
    ranks: int = 1

    @property
    def name(self) -> str:
        return "_".join(filter(None, (self.family, self.kind, self.engine, f"seed{self.seed}")))

    @property
    def command(self) -> list[str]:
        """The subcommand of vlrft."""
        return ["train"] if self.ranks == 1 else ["launch", "--ranks", str(self.ranks)]

    def settings(self, python: str, model: Path) -> list[str]:
        """Overrides of the second stage's config."""
        vllm = {"name": "vllm", "python": python, "check_every": 1, "max_gap": GAP}
        engine = json.dumps(vllm) if self.engine == "vllm" else self.engine
        own = [f"policy.model={model}", f"seed={self.seed}", f"rollout.engine={engine}"]
        return [*SHORT, *SECOND, *own, *self.changes]


def all_cases(seeds: Sequence[int]) -> list[Case]:
    """Every seed of one family; one seed of the other, with LoRA, and with ZeRO-2 on two ranks."""
    first = seeds[0]
    cases: list[Case] = []
    for engine in ("hf", "vllm"):
        cases += [Case(family="qwen2_vl", engine=engine, seed=seed) for seed in seeds]
        cases += [
            Case(family="qwen2_5_vl", engine=engine, seed=first),
            Case(family="qwen2_vl", engine=engine, seed=first, kind="lora", changes=LORA),
            Case(
                family="qwen2_vl",
                engine=engine,
                seed=first,
                kind="zero2",
                changes=ZERO_2,
                ranks=2,
            ),
        ]
    return cases
