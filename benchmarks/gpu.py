"""One group's update and rollout on a GPU, Qwen2-VL-2B's shape in bf16, beside the replicated way: time, FLOP, memory.

    python benchmarks/gpu.py [--out FOLDER] [--repeats 5] [--cases classification …] [--tiny]

Needs no network: the weights are random, the images noise. Compared, in turn within one process, on the same prompts,
images, completions and advantages:

    replicated   a whole row for each completion, its image encoded again, logits of the completion's positions alone
    packed       vlrft with sdpa: prompt and image once a group
    packed flex  the same without a mask of the rows' length squared

each with and without activation checkpointing, optimiser step included; and rollouts beside `generate()`. Gate: log-probs
of both ways within bf16's bound, gradients' norms within 2 %. Useful FLOP count what is needed once (P + ΣC tokens of the
trunk, one image, ΣC rows of the head, attention over what is attended to, times 3); MFU is their share of what a plain
bf16 matmul reaches on the same machine. --tiny: small shapes in float32, to see on a CPU that it runs.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vlrft.chat import Chat
from vlrft.config import UpdateConfig
from vlrft.engine.single import SingleEngine
from vlrft.policy.build import build_tokenizer
from vlrft.policy.load import Policy, checkpoint_activations
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packed import PackItem
from vlrft.policy.trunk import attending
from vlrft.policy.vision import build_image_processor
from vlrft.rollout import Request, Sampling
from vlrft.rollout.hf import HfEngine
from vlrft.schema import IMAGE, Message

GROUP = 8
Way = tuple[
    str, str, Callable[[Policy, PackItem], Tensor]
]  # its name, the decoder's attention, log-probs
CORPUS = ("Which class is this? Think first, then answer.",) * 8


@dataclass(frozen=True, kw_only=True)
class Case:
    """A group: an image of `side`² pixels, `length` tokens a completion."""

    name: str
    side: int
    length: int


CASES = (
    Case(name="classification", side=448, length=64),
    Case(name="geometry", side=896, length=256),
    Case(name="grounding", side=1344, length=128),
)
TINY = (Case(name="classification", side=112, length=8), Case(name="geometry", side=168, length=16))
SHAPES: dict[str, dict[str, dict[str, Any]]] = {
    "2b": {
        "text": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
                 "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151_936},
        "vision": {"depth": 32, "embed_dim": 1280, "num_heads": 16, "mlp_ratio": 4},
    },
    "tiny": {
        "text": {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024},
        "vision": {"depth": 2, "embed_dim": 64, "num_heads": 2, "mlp_ratio": 4},
    },
}  # fmt: skip


def make_policy(shape: str, device: str, dtype: torch.dtype) -> Policy:
    """Random weights of the shape behind a tokenizer of a few hundred tokens."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    tokenizer = build_tokenizer(CORPUS, 400)
    id_of = tokenizer.convert_tokens_to_ids
    text = SHAPES[shape]["text"]
    head = text["hidden_size"] // text["num_attention_heads"]
    rope = {"rope_type": "default", "rope_theta": 1e6}
    sections = [head // 8, 3 * head // 16, head // 2 - head // 8 - 3 * head // 16]
    config = Qwen2VLConfig(
        text_config={**text, "rope_parameters": {**rope, "mrope_section": sections}},
        vision_config={**SHAPES[shape]["vision"], "hidden_size": text["hidden_size"]},
        image_token_id=id_of("<|image_pad|>"),
        vision_start_token_id=id_of("<|vision_start|>"),
        vision_end_token_id=id_of("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    with torch.device(device):
        make: Any = Qwen2VLForConditionalGeneration
        model = make._from_config(config, dtype=dtype, attn_implementation="sdpa")
    processor = build_image_processor()
    image = config.image_token_id
    chat = Chat(tokenizer, processor, vocab_size=text["vocab_size"], image_token_id=image)
    return Policy(model.train(), chat)


def group_of(policy: Policy, case: Case) -> PackItem:
    generator = np.random.default_rng(case.side)
    pixels = generator.integers(0, 255, (case.side, case.side, 3), dtype=np.uint8)
    message = Message(role="user", content=(IMAGE, CORPUS[0]))
    prompt = policy.chat.render([message], [Image.fromarray(pixels)])
    rows = generator.integers(0, 256, (GROUP, case.length))
    return PackItem(prompt=prompt, rows=tuple(tuple(map(int, row)) for row in rows))


def advantages(item: PackItem, device: torch.device) -> Tensor:
    sign = torch.arange(len(item.rows), device=device) % 2 * 2.0 - 1
    return sign[:, None].expand(-1, len(item.rows[0])) / (len(item.rows) * len(item.rows[0]))


def packed(policy: Policy, item: PackItem) -> Tensor:
    mask = torch.ones(len(item.rows), len(item.rows[0]), dtype=torch.bool)
    return packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs


def replicated(policy: Policy, item: PackItem) -> Tensor:
    """All rows of the group in one forward of the model's own."""
    device, count = policy.device, len(item.rows)
    ids = torch.tensor([[*item.prompt.ids, *row] for row in item.rows], device=device)
    length = len(item.rows[0])
    logits = policy.model(
        input_ids=ids,
        mm_token_type_ids=(ids == policy.trunk.image_token_id).int(),
        image_grid_thw=torch.tensor([i.grid for i in item.prompt.images] * count, device=device),
        pixel_values=torch.cat([i.values for i in item.prompt.images] * count).to(device),
        logits_to_keep=length + 1,
        use_cache=False,
    ).logits[:, :-1]
    logits = logits.float().masked_fill(policy.banned, -torch.inf)
    picked: Tensor = logits.gather(2, ids[:, -length:, None])[..., 0]
    total: Tensor = logits.logsumexp(2)
    return picked - total


def update_of(
    engine: SingleEngine, item: PackItem, score: Callable[[Policy, PackItem], Tensor]
) -> Callable[[], None]:
    weights = advantages(item, engine.policy.device)

    def work() -> None:
        engine.backward(-(score(engine.policy, item) * weights).sum())
        engine.step()

    return work


@contextmanager
def checkpointed(policy: Policy, on: bool) -> Iterator[None]:
    if on:
        checkpoint_activations(policy.model)
    try:
        yield
    finally:
        if on:
            policy.model.gradient_checkpointing_disable()


def seconds(work: Callable[[], object], repeats: int, device: torch.device) -> list[float]:
    """Of each repeat, after one that is not counted."""
    spent: list[float] = []
    for _ in range(repeats + 1):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        spent.append(time.perf_counter() - start)
    return spent[1:]


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def peak(work: Callable[[], object], device: torch.device) -> float | None:
    """GiB that the work had allocated at most, weights and optimiser included."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    work()
    return torch.cuda.max_memory_allocated() / 2**30


def ceiling(device: torch.device, dtype: torch.dtype) -> float:
    """TFLOP/s of a plain matmul."""
    size = 8192 if device.type == "cuda" else 512
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    spent = seconds(lambda: a @ b, 10, device)
    return 2 * size**3 / min(spent) / 1e12


def linear_weights(module: nn.Module) -> int:
    return sum(m.weight.numel() for m in module.modules() if isinstance(m, nn.Linear))


def useful_tflop(policy: Policy, item: PackItem) -> float:
    """Forward and backward of what is needed once."""
    text, tower = policy.trunk.decoder.config, policy.trunk.seeing.visual
    prompt, own = len(item.prompt.ids), sum(map(len, item.rows))
    pairs = prompt**2 / 2 + sum(len(row) * (prompt + len(row) / 2) for row in item.rows)
    width, depth = tower.config.embed_dim, tower.config.depth
    patches = sum(len(image.values) for image in item.prompt.images)
    places = sum(map(policy.trunk.features, item.prompt.images))
    forward = (
        2 * linear_weights(policy.trunk.decoder) * (prompt + own)
        + 4 * text.hidden_size * text.num_hidden_layers * pairs
        + 2 * policy.trunk.head.weight.numel() * own
        + 2 * linear_weights(tower.blocks) * patches
        + 4 * width * depth * patches**2
        + 2 * linear_weights(tower.merger) * places
    )
    return float(3 * forward / 1e12)


def gate(policy: Policy, item: PackItem, ways: Sequence[Way]) -> dict[str, tuple[float, float]]:
    """Largest gap of log-probs to the first way, and how far off the gradient's norm is. Raises SystemExit beyond bounds."""
    weights = advantages(item, policy.device)
    found: dict[str, tuple[Tensor, float]] = {}
    for name, attention, score in ways:
        with attending(policy.trunk.decoder.config, attention):
            logprobs = score(policy, item)
            loss: Any = (logprobs * weights).sum()
            loss.backward()
        norms = [p.grad.float().norm() for p in policy.model.parameters() if p.grad is not None]
        found[name] = logprobs.detach(), float(torch.stack(norms).norm())
        policy.model.zero_grad(set_to_none=True)
    (theirs, expected), *_ = found.values()
    gaps = {
        n: (float((own - theirs).abs().max()), abs(norm / expected - 1))
        for n, (own, norm) in found.items()
    }
    gap, off = (0.25, 0.02) if policy.dtype == torch.bfloat16 else (1e-4, 1e-4)
    wrong = {n: found for n, found in gaps.items() if found[0] > gap or found[1] > off}
    if wrong:
        raise SystemExit(f"the gate is not passed: log-probs and norms differ by {wrong}")
    return gaps


def measure(
    policy: Policy, case: Case, args: argparse.Namespace, top: float
) -> Iterator[dict[str, Any]]:
    item, device = group_of(policy, case), policy.device
    shape = {**asdict(case), "prompt": len(item.prompt.ids), "group": GROUP}
    ways: list[Way] = [("replicated", "sdpa", replicated), ("packed", "sdpa", packed)]
    if device.type == "cuda":  # flex_attention has no backward pass on a CPU
        ways.append(("packed flex", "flex_attention", packed))
    yield {"case": shape, "gate": gate(policy, item, ways)}
    needed = useful_tflop(policy, item)
    engine = SingleEngine(UpdateConfig(lr=1e-6), policy, 10**6)
    for checkpointing in (False, True):
        for name, attention, score in ways:
            work = update_of(engine, item, score)
            with (
                checkpointed(policy, checkpointing),
                attending(policy.trunk.decoder.config, attention),
            ):
                try:
                    spent = seconds(work, args.repeats, device)
                    most = peak(work, device)
                except torch.cuda.OutOfMemoryError:
                    engine.discard()
                    yield {
                        "case": case.name,
                        "way": name,
                        "checkpointing": checkpointing,
                        "error": "out of memory",
                    }
                    continue
            middle = statistics.median(spent)
            yield {
                "case": case.name, "way": name, "checkpointing": checkpointing, "seconds": spent, "peak_gib": most,
                "useful_tflop": needed, "mfu": needed / middle / top,
            }  # fmt: skip
    yield from rollouts(policy, item, case, args.repeats)


def rollouts(policy: Policy, item: PackItem, case: Case, repeats: int) -> Iterator[dict[str, Any]]:
    """All completions of `length` tokens: nothing ends one."""
    policy.chat.end_ids = frozenset()
    request = Request(id=case.name, prompt=item.prompt, seeds=tuple(range(GROUP)))
    sampling = Sampling(max_tokens=case.length)
    ids = torch.tensor([item.prompt.ids], device=policy.device)
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == policy.trunk.image_token_id).int(),
        "image_grid_thw": torch.tensor([i.grid for i in item.prompt.images], device=policy.device),
        "pixel_values": torch.cat([i.values for i in item.prompt.images]).to(policy.device),
    }
    limits = {"min_new_tokens": case.length, "max_new_tokens": case.length}

    def generate() -> None:
        policy.model.eval()
        policy.model.generate(**inputs, **limits, do_sample=True, num_return_sequences=GROUP)
        policy.model.train()

    engine = HfEngine(policy)
    for name, work in (
        ("generate()", generate),
        ("vlrft", lambda: engine.generate([request], sampling)),
    ):
        spent = seconds(work, repeats, policy.device)
        tokens = GROUP * case.length / statistics.median(spent)
        yield {"case": case.name, "rollout": name, "seconds": spent, "tokens_s": tokens}


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| case | way | checkpointing | seconds (median) | replicated / it | MFU | peak GiB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    base: dict[tuple[str, bool], float] = {}
    for row in rows:
        if "error" in row:
            lines.append(
                f"| {row['case']} | {row['way']} | {row['checkpointing']} | {row['error']} | | | |"
            )
        elif "way" in row:
            middle, key = statistics.median(row["seconds"]), (row["case"], row["checkpointing"])
            if row["way"] == "replicated":
                base[key] = middle
            ratio = f"{base[key] / middle:.2f}" if key in base else "-"
            most = "-" if row["peak_gib"] is None else f"{row['peak_gib']:.1f}"
            lines.append(
                f"| {row['case']} | {row['way']} | {row['checkpointing']} | {middle:.4f} | {ratio} | "
                f"{row['mfu']:.1%} | {most} |"
            )
    lines += ["", "| case | rollout | seconds (median) | tokens/s |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {row['case']} | {row['rollout']} | {statistics.median(row['seconds']):.4f} | {row['tokens_s']:.0f} |"
        for row in rows if "rollout" in row
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not args.tiny:
        raise SystemExit("no GPU here; --tiny shows that it runs")
    import transformers

    dtype = torch.float32 if args.tiny else torch.bfloat16
    top = ceiling(device, dtype)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    rows: list[dict[str, Any]] = [
        {
            "machine": name, "torch": torch.__version__, "transformers": transformers.__version__,
            "python": platform.python_version(), "ceiling_tflops": top, "dtype": str(dtype),
        }
    ]  # fmt: skip
    print(rows[0], flush=True)
    for case in TINY if args.tiny else CASES:
        if args.cases and case.name not in args.cases:
            continue
        policy = make_policy("tiny" if args.tiny else "2b", str(device), dtype)
        for row in measure(policy, case, args, top):
            rows.append(row)
            print(row, flush=True)
        del policy
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"gpu_{datetime.now(timezone.utc):%Y-%m-%d}"
    stem.with_suffix(".json").write_text(json.dumps(rows, indent=1))
    text = f"# {name}\n\n{json.dumps(rows[0])}\n\n{page(rows)}\n"
    stem.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
