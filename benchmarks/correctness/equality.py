"""Log-probs and gradients of the packed forward, compared with transformers' own forward of one row per completion.

    python -m benchmarks.correctness equality [--hidden 128 --layers 3] [--dtype float64 float32] [--families qwen3_vl] [--device cpu] [--out FILE.md]

For every model family: activation checkpointing of both kinds, LoRA, a frozen vision model (with cached features), logits
in chunks, eager attention and attention without torch's private operators; on ragged groups with one image, with several
images per sample, with videos beside an image, with text only, with all of these in one micro-batch, with a group of 64, with several turns in which
the environment shows images, and with one group split into sub-groups that each carry the prefix. Prints max |Δ log-prob|
and ‖Δ gradient‖ / ‖gradient‖ over all parameters, and stops at one above its bound. Sampling is compared, too: greedy
answers with `generate()`, the sampler's log-probs with the plain forward.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.correctness.grid import (
    CASES,
    CONDITIONS,
    FAMILIES,
    VARIANTS,
    build_policy,
    cases,
    compare,
    randomise_adapters,
    widen_norms,
)
from vlrft.policy.families import vision_families
from vlrft.policy.logprobs import replicated_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.testing.packed_equality import in_float64
from vlrft.testing.small_policies import plain_generate

TOKENS = 24  # maximum of a sampled answer
# max |Δ log-prob| and the relative error of the gradient; some times what another order of summation changes
BOUNDS = {"float64": (1e-12, 1e-12), "float32": (2e-5, 5e-6), "bfloat16": (0.25, 0.1)}
TEXT = ("text", "sub-groups", "64 rows")
TOWER_BOUND = 1e-7  # of the gradient with images in float64: a vision model rotates queries and keys in float32
# float32, of recurrent layers, which sum decays over chunks of 64 tokens: transformers' own forward is 2e-5 from float64, forked
# rows, whose chunks begin elsewhere, are 9e-6
RECURRENT_BOUND = (5e-5, 3e-5)
EAGER = "eager attention"  # its softmax is float32 whatever the dtype


def compare_sampling(policy: Policy) -> tuple[int, int, float]:
    """Number of greedy answers equal to `generate()`'s, number of prompts, and the largest gap of sampled log-probs."""
    prompts = {item.prompt.key: item.prompt for _, (items, _) in cases(policy) for item in items}
    requests = [Request(id="s", prompt=p, seeds=(0, 1, 2)) for p in prompts.values()]
    engine = HfEngine(policy)
    greedy = engine.generate(requests, Sampling(max_tokens=TOKENS, temperature=0.0))
    same = sum(
        pieces[0].ids == plain_generate(policy, request.prompt, TOKENS)
        for request, pieces in zip(requests, greedy, strict=True)
    )
    worst = 0.0
    answers = engine.generate(requests, Sampling(max_tokens=TOKENS))
    for request, pieces in zip(requests, answers, strict=True):
        items = [PackItem(prompt=request.prompt, rows=tuple(p.ids for p in pieces))]
        mask = torch.zeros(len(pieces), TOKENS, dtype=torch.bool)
        sampled = torch.zeros(mask.shape, dtype=torch.float64)
        for b, piece in enumerate(pieces):
            mask[b, : len(piece.ids)] = True
            sampled[b, : len(piece.ids)] = torch.tensor(piece.logprobs, dtype=torch.float64)
        with torch.no_grad():
            plain = replicated_logprobs(policy, items, mask=mask, temperature=1.0).logprobs
        worst = max(worst, float((plain.double().cpu() - sampled)[mask].abs().max()))
    return same, len(requests), worst


def compare_all(args: argparse.Namespace, dtype: str) -> Iterator[str]:
    """Rows of the tables for one dtype. Exits where a cell is above its bound."""
    args.dtype = dtype
    rollouts = [
        "",
        "| family | greedy = generate() | max gap of sampled log-probs |",
        "| --- | --- | --- |",
    ]
    yield f"| {dtype} | variant | {' | '.join(CASES)} |"
    yield "| --- " * (2 + len(CASES)) + "|"
    for family in args.families:
        for variant in [*VARIANTS, *CONDITIONS]:
            settings = VARIANTS.get(variant, {})
            if family not in vision_families() and "freeze" in settings:
                continue
            with TemporaryDirectory() as folder:
                policy = build_policy(family, args, Path(folder), **settings)
            randomise_adapters(policy)
            wide: AbstractContextManager[None] = nullcontext()
            if dtype == "float64" and policy.backbone.recurrent_layers:
                wide = in_float64()
            elif dtype == "float64":
                widen_norms(policy)
            with wide, CONDITIONS.get(variant, nullcontext)(policy):
                errors = {name: compare(policy, case) for name, case in cases(policy)}
            for name, (gap, error) in errors.items():
                bounds = bounds_of(dtype, variant, name)
                if dtype == "float32" and policy.backbone.recurrent_layers:
                    bounds = RECURRENT_BOUND
                if not (gap <= bounds[0] and error <= bounds[1]):
                    sys.exit(
                        f"{family}, {variant}, {name}, {dtype}: {gap:.1e}, {error:.1e}; allowed {bounds}"
                    )
            cells = [_cell(errors.get(name)) for name in CASES]
            yield f"| {family} | {variant} | {' | '.join(cells)} |"
            if variant == "plain":
                same, total, gap = compare_sampling(policy)
                rollouts.append(f"| {family} | {same} of {total} | {gap:.1e} |")
    yield from rollouts


def bounds_of(dtype: str, variant: str, case: str) -> tuple[float, float]:
    """The largest difference and error that a cell may have."""
    if dtype == "float64" and variant == EAGER:
        return BOUNDS["float32"]
    gap, error = BOUNDS[dtype]
    return gap, error if case in TEXT else max(error, TOWER_BOUND)


def _cell(error: tuple[float, float] | None) -> str:
    return "-" if error is None else f"{error[0]:.1e}, {error[1]:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--dtype", nargs="+", default=["float64", "float32"], choices=list(BOUNDS))
    parser.add_argument("--families", nargs="+", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    lines = [
        "# The packed forward compared with the replicated one",
        "",
        f"torch {torch.__version__}, transformers {transformers.__version__}, {args.device}, hidden {args.hidden}, "
        f"{args.layers} layers; a cell: max |Δ log-prob|, relative gradient error",
    ]
    print(lines[-1])
    for dtype in args.dtype:
        lines.append("")
        for line in compare_all(args, dtype):
            print(line, flush=True)
            lines.append(line)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
