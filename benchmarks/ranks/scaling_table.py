"""Planned memory of a rank of Qwen2-VL-2B and 7B, per engine, on 1, 2 and 8 ranks: tables of docs/howto/many_ranks.md.

    python -m benchmarks.ranks.scaling_table [--folder DIR]

Estimates of the planner (`vlrft doctor --ranks`) for `configs/geoqa_gpg.yaml` with activation checkpointing, on GPUs, from
the published shapes: 16 prompts per step of 1,024 tokens, 512 of them an image, 8 answers of 256. `--folder` keeps each
model's config.json, for `vlrft doctor … policy.model=DIR/2B`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vlrft.config.load import load_config
from vlrft.engine import planned_choices
from vlrft.memory.plan import FILL_LIMIT, MemoryPhase, MemoryPlan
from vlrft.trainer.memory_plan.planner import Planner

GIB = 2**30
CARDS = (24, 48, 80)  # GiB
RANKS = (1, 2, 8)
COMMON = ["device=cuda", "policy.activation_checkpointing=true"]
TOWER = {"depth": 32, "embed_dim": 1280, "num_heads": 16, "mlp_ratio": 4}
SHAPES: Mapping[str, dict[str, Any]] = {
    "2B": {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2,
           "vocab_size": 151_936, "tie_word_embeddings": True},
    "7B": {"hidden_size": 3584, "intermediate_size": 18_944, "num_attention_heads": 28, "num_key_value_heads": 4,
           "vocab_size": 152_064, "tie_word_embeddings": False},
}  # fmt: skip
COLUMNS: Mapping[str, tuple[str, ...]] = {  # parts of the update at its peak
    "weights": ("weights", "gathered weights"),
    "gradients, buckets": ("gradients", "communication buckets"),
    "copies, moments": ("float32 copies", "optimiser moments"),
    "activations, logits": ("activations", "logits"),
}


def write_config(name: str, folder: Path) -> Path:
    """Write the model's config.json to a new folder; returns the folder."""
    shape = SHAPES[name]
    config = {
        "model_type": "qwen2_vl",
        "num_hidden_layers": 28,
        "rope_theta": 1e6,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_config": {**TOWER, "hidden_size": shape["hidden_size"]},
        **shape,
    }
    model = folder / name
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps(config))
    return model


def make_rows(model: Path, ranks: int) -> Iterator[str]:
    """A row per engine; on one rank only engines without settings and those that offload, as there is nothing to shard."""
    for engine in planned_choices():
        settings = {key: value for key, value in engine.items() if key != "name"}
        if ranks > 1 or not settings or settings.get("offload") == "cpu":
            config = load_config(
                "geoqa_gpg", [f"policy.model={model}", f"engine={json.dumps(engine)}", *COMMON]
            )
            (stage,) = Planner(config, "cuda", ranks).plans(config)
            named = (
                f"{key}: {json.dumps(value).strip(chr(34))}" for key, value in settings.items()
            )
            yield make_row(ranks, ", ".join([engine["name"], *named]), stage.plan)


def make_row(ranks: int, engine: str, plan: MemoryPlan) -> str:
    phases: Mapping[str, MemoryPhase] = {phase.name: phase for phase in plan.phases}
    update, rollout, evaluation = (phases[name] for name in ("update", "rollout", "evaluation"))
    sizes = [sum(update.parts.get(p, 0) for p in parts) for parts in COLUMNS.values()]
    sizes += [update.total, rollout.parts.get("keys and values", 0), rollout.total]
    sizes += [evaluation.total, sum(update.host.values())]
    fits = next((f"{card}" for card in CARDS if plan.peak.total <= FILL_LIMIT * card * GIB), "no")
    return f"| {ranks} | {engine} | {' | '.join(f'{n / GIB:.1f}' for n in sizes)} | {fits} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    names = [
        *COLUMNS,
        "**update**",
        "keys, values",
        "**rollout**",
        "**evaluation**",
        "host",
        "card",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        for name in SHAPES:
            model = write_config(name, args.folder or Path(scratch))
            print(f"\nQwen2-VL-{name}, GiB:\n\n| ranks | engine | {' | '.join(names)} |")
            print("| ---: | --- |" + " ---: |" * len(names))
            for ranks in RANKS:
                print("\n".join(make_rows(model, ranks)), flush=True)


if __name__ == "__main__":
    main()
