"""Peak memory estimated by `vlrft doctor CONFIG`, compared with measured updates and rollouts.

    python -m benchmarks.memory [--only NAME …] [--out benchmarks/results]

Each case runs in a new process (case.py). glibc keeps freed memory below the top of its heap, except for blocks larger
than a threshold that it raises; MALLOC_MMAP_THRESHOLD_ fixes it at 1 MiB, so that resident memory is memory in use.
Writes memory_DATE.json and memory.md after each case (--only keeps the day's other rows); exit code 1 when an estimate is
off by more than a fifth. Another program: `python -m benchmarks.memory.flat --out FOLDER`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

MIB = 2**20
ALLOWED = 0.2
VL: dict[str, Any] = {
    "hidden_size": 512,
    "layers": 8,
    "heads": 8,
    "kv_heads": 2,
    "intermediate_size": 2048,
    "vision_width": 384,
    "vision_layers": 8,
    "vision_heads": 6,
}
NEW, TEXT = {**VL, "family": "qwen2_5_vl"}, {**VL, "family": "qwen2"}
WIDE = {**TEXT, "kv_heads": 8, "layers": 4}
QWEN_VOCAB = 151_936
LONG = {"image": 56, "text": 64, "tokens": 64}  # 784 tokens of an image
BROAD = {**TEXT, "hidden_size": 2048, "intermediate_size": 8192, "heads": 16, "layers": 3}
UPDATE, ROLLOUT = {"phases": ["update"]}, {"phases": ["rollout"]}
REFERENCE = {"name": "gpg", "regularize": {"kl": 0.1}}


def case(name: str, build: dict[str, Any], sizes: dict[str, Any], **policy: Any) -> dict[str, Any]:
    return {"name": name, "policy": {"build": build, **policy}, **sizes}


CASES = (
    case("Qwen2-VL, 784 image tokens", VL, LONG | UPDATE),
    case("Qwen2.5-VL, 784 image tokens", NEW, LONG | UPDATE),
    case("Qwen2, two prompts of 200", TEXT, {"text": 200, "tokens": 128, "prompts": 2} | UPDATE),
    case("Qwen2-VL, checkpointing", VL, LONG | UPDATE, activation_checkpointing=True),
    case("Qwen2, checkpointing, 1,700", TEXT, {"text": 700, "tokens": 128, "prompts": 2} | UPDATE,
         activation_checkpointing=True),
    case("Qwen2-VL, LoRA", VL, LONG | UPDATE, lora={"rank": 16}),
    case("Qwen2-VL, LoRA on 4 bits", VL, LONG | UPDATE, lora={"rank": 16}, quantization="nf4"),
    case("Qwen2, wide, LoRA on 4 bits", BROAD, {"text": 64, "tokens": 32, "group": 4},
         lora={"rank": 16}, quantization="nf4", dtype="bfloat16"),
    case("Qwen2-VL, frozen tower", VL, LONG | UPDATE, freeze=["vision", "projector"]),
    case("Qwen2.5-VL, eager", NEW, {"image": 28, "text": 64, "tokens": 32} | UPDATE, attention="eager"),
    case("Qwen2-VL, four micro-batches", VL,
         {"image": 28, "text": 64, "tokens": 64, "prompts": 4, "budget": 1000} | UPDATE),
    case("Qwen2-VL, a reference", VL, {"image": 28, "text": 64, "tokens": 64, "algorithm": REFERENCE} | UPDATE),
    case("Qwen2, bfloat16", TEXT, {"text": 200, "tokens": 128, "prompts": 2} | UPDATE, dtype="bfloat16"),
    case("Qwen2-VL, 152k words", VL, {"image": 16, "text": 64, "tokens": 64, "vocab": QWEN_VOCAB} | UPDATE),
    case("Qwen2, 256 rows of 96", WIDE, {"text": 64, "tokens": 96, "prompts": 4, "group": 64} | ROLLOUT),
    case("Qwen2-VL, 8 prompts of 260", VL, {"image": 28, "prompts": 8, "text": 64, "tokens": 4} | ROLLOUT),
    case("Qwen2, one prompt of 4,000", TEXT, {"text": 4000, "tokens": 4, "group": 8} | ROLLOUT),
    case("Qwen2, 152k words, 96 rows", TEXT,
         {"text": 32, "tokens": 4, "group": 96, "vocab": QWEN_VOCAB} | ROLLOUT),
)  # fmt: skip


def measure(case: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each measured phase of a case."""
    quiet = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(MIB)}
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory.case", json.dumps(case)],
        check=True,
        env=os.environ | quiet | {"PYTHONPATH": str(here.parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    rows = [{"case": case["name"], **json.loads(line)} for line in lines]
    return [row | {"ratio": row["estimate"] / row["measured"]} for row in rows]


def machine() -> str:
    packages = ", ".join(f"{p} {version(p)}" for p in ("torch", "transformers", "peft"))
    device = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.is_available() and torch.cuda.get_device_name())"],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout.strip()  # fmt: skip
    processor = "CPU, one thread" if device == "False" else device
    return f"Python {platform.python_version()}, {packages}; {platform.system()} {platform.machine()}, {processor}"


def table_row(row: dict[str, Any]) -> str:
    sizes = f"{row['estimate'] / MIB:,.0f} | {row['measured'] / MIB:,.0f} | {row['ratio']:.2f}"
    return f"| {row['case']} | {row['phase']} | {sizes} | {row['moment']} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    cases = [c for c in CASES if not args.only or c["name"] in args.only]
    head = "| case | phase | estimate, MiB | measured, MiB | ratio | peak moment |\n| --- | --- | ---: | ---: | ---: | --- |"
    print(head, flush=True)
    rows = read_rows(args.out) if args.only else []
    for one in cases:
        rows = [row for row in rows if row["case"] != one["name"]]
        for row in measure(one):
            rows.append(row)
            print(table_row(row), flush=True)
        write(args.out, head, sorted(rows, key=position))
    off = [row["case"] for row in rows if abs(row["ratio"] - 1) > ALLOWED]
    print(
        f"{len(rows) - len(off)} of {len(rows)} within {ALLOWED:.0%}"
        + (f"; off: {off}" if off else "")
    )
    return 1 if off else 0


def position(row: dict[str, Any]) -> int:
    return [c["name"] for c in CASES].index(row["case"])


def read_rows(out: Path) -> list[dict[str, Any]]:
    """Today's rows, which --only keeps."""
    path = out / f"memory_{datetime.now(timezone.utc).date().isoformat()}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows


def write(out: Path, head: str, rows: list[dict[str, Any]]) -> None:
    day = datetime.now(timezone.utc).date().isoformat()
    text = json.dumps({"machine": machine(), "cases": CASES, "rows": rows}, indent=1)
    (out / f"memory_{day}.json").write_text(text + "\n", encoding="utf-8")
    page = [
        "# Peak memory: estimated before the run, and measured",
        "",
        "`python -m benchmarks.memory`: models of random weights, each case in a new process; peak resident memory",
        "above that of the imported libraries (on a GPU: peak of allocated memory). The estimate is that of",
        "`vlrft doctor CONFIG`, which reads the model's shapes only.",
        "",
        head,
        *map(table_row, rows),
        "",
        f"{machine()}; {day}.",
        "",
    ]
    (out / "memory.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
