"""Log-probs and gradients of the packed forward, compared with transformers' own forward of one row per completion.

    python -m benchmarks.correctness equality [--hidden 256 --layers 4] [--dtype float32] [--device cpu] [--out FILE.md]

For every model family: activation checkpointing, LoRA, a frozen vision model (with cached features) and logits in
chunks, on ragged groups with one image, with several images per sample, with text only, with all of these in one
micro-batch, and with one group split into sub-groups that each carry the prefix. Prints max |Δ log-prob| and
‖Δ gradient‖ / ‖gradient‖ over all parameters. Sampling is compared, too: greedy answers with `generate()`, the
sampler's log-probs with the plain forward.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.memory import limits
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import TokenLogprobs, packed_logprobs, replicated_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Prompt
from vlrft.testing.small_policies import CORPUS, ask, noise_image, plain_generate

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen2", "llama")
FROZEN = ("vision", "projector")
VARIANTS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "checkpointing": {"activation_checkpointing": True},
    "LoRA": {"lora": LoraConfig(rank=8)},
    "LoRA, checkpointing": {"lora": LoraConfig(rank=8), "activation_checkpointing": True},
    "frozen vision": {"freeze": FROZEN},
    "frozen vision, checkpointing": {"freeze": FROZEN, "activation_checkpointing": True},
    "logits in chunks": {},
}
TOKENS = 24  # maximum of a sampled answer
LENGTHS = (23, 1, 40, 7, 31, 16, 2, 28)  # ragged, G = 8
Case = tuple[list[PackItem], Tensor]


def build_policy(family: str, args: argparse.Namespace, folder: Path, **settings: Any) -> Policy:
    common: dict[str, Any] = {"dtype": args.dtype, **settings}
    build = BuildConfig(
        family="qwen2" if family == "llama" else family,
        hidden_size=args.hidden,
        layers=args.layers,
        heads=8,
        kv_heads=2,
        intermediate_size=2 * args.hidden,
        vision_width=args.hidden // 2,
        vision_layers=args.layers,
        vocab_size=2000,
    )
    if family != "llama":
        return load_policy(PolicyConfig(build=build, **common), corpus=CORPUS, device=args.device)
    save_llama(load_policy(PolicyConfig(build=build), corpus=CORPUS), folder)
    return load_policy(PolicyConfig(model=str(folder), **common), device=args.device)


def save_llama(twin: Policy, folder: Path) -> None:
    """Save a Llama with random weights that has the twin's sizes and tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
    names = (*sizes, "num_attention_heads", "num_key_value_heads", "eos_token_id", "pad_token_id")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{n: getattr(twin.model.config, n) for n in names}))
    model.save_pretrained(folder)
    twin.chat.save(folder)


def cases(policy: Policy) -> Iterator[tuple[str, Case]]:
    chat, random = policy.chat, np.random.default_rng(0)
    text_ids = [i for i in range(len(chat.tokenizer)) if i not in chat.banned_ids]

    def group(prompt: Prompt, lengths: Sequence[int] = LENGTHS) -> PackItem:
        rows = tuple(tuple(random.choice(text_ids, n).tolist()) for n in lengths)
        return PackItem(prompt=prompt, rows=rows)

    text = group(chat.render(ask("How many threes are there, and how many fours?")))
    yield "text", make_case([text])
    halves = [PackItem(prompt=text.prompt, rows=rows) for rows in (text.rows[:3], text.rows[3:])]
    yield "sub-groups", make_case(halves)
    if policy.backbone.multimodal:
        wide, square = noise_image(252, 140, 1), noise_image(168, 168, 2)
        one = group(chat.render(ask(IMAGE, "Which digit is this?"), [square]))
        two = group(chat.render(ask(IMAGE, "and", IMAGE, "?"), [wide, square]), LENGTHS[:4])
        yield "one image", make_case([one])
        yield "two images", make_case([two])
        yield "all together", make_case([one, text, two])


def make_case(items: list[PackItem]) -> Case:
    """The items with a mask of every token but three in the middle, which stand for an environment's tokens."""
    rows = [row for item in items for row in item.rows]
    mask = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.bool)
    for b, row in enumerate(rows):
        mask[b, : len(row)] = True
    mask[:, 9:12] = False
    return items, mask


def gradients(
    score: Callable[..., TokenLogprobs], policy: Policy, case: Case
) -> tuple[Tensor, Tensor]:
    """Log-probs, and the gradient of their randomly weighted sum over all parameters."""
    items, mask = case
    policy.model.zero_grad()
    logprobs = score(policy, items, mask=mask, temperature=0.9).logprobs
    weights = torch.randn(mask.shape, generator=torch.Generator().manual_seed(1)).to(logprobs)
    (logprobs * weights).sum().backward()  # type: ignore[no-untyped-call]
    parts = [p.grad.flatten().double() for p in policy.model.parameters() if p.grad is not None]
    return logprobs.detach(), torch.cat(parts)


def compare(policy: Policy, case: Case) -> tuple[float, float]:
    """max |Δ log-prob| and the relative error of the gradient."""
    packed, gradient = gradients(packed_logprobs, policy, case)
    plain, expected = gradients(replicated_logprobs, policy, case)
    error = float((gradient - expected).norm() / expected.norm())
    return float((packed - plain).abs().max()), error


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "bfloat16"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    lines = [
        f"torch {torch.__version__}, transformers {transformers.__version__}, {args.device}, {args.dtype}, hidden "
        f"{args.hidden}, {args.layers} layers; a cell: max |Δ log-prob|, relative gradient error",
        "",
        "| family | variant | text | sub-groups | one image | two images | all together |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rollouts = [
        "",
        "| family | greedy = generate() | max gap of sampled log-probs |",
        "| --- | --- | --- |",
    ]
    for family in FAMILIES:
        for variant, settings in VARIANTS.items():
            if family in ("qwen2", "llama") and "freeze" in settings:
                continue
            with TemporaryDirectory() as folder:
                policy = build_policy(family, args, Path(folder), **settings)
            randomise_adapters(policy)
            chunk = (
                16 * len(policy.banned) if variant == "logits in chunks" else limits.CHUNK_LOGITS
            )
            with patch.object(limits, "CHUNK_LOGITS", chunk):
                errors = {name: compare(policy, case) for name, case in cases(policy)}
            cells = [f"{gap:.1e}, {error:.1e}" for gap, error in errors.values()]
            cells += ["-"] * (5 - len(cells))
            lines.append(f"| {family} | {variant} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
            if variant == "plain":
                same, total, gap = compare_sampling(policy)
                rollouts.append(f"| {family} | {same} of {total} | {gap:.1e} |")
    text = "\n".join([*lines, *rollouts])
    print("\n".join([lines[0], *rollouts]))
    if args.out:
        args.out.write_text(f"# The packed forward compared with the replicated one\n\n{text}\n")


def randomise_adapters(policy: Policy) -> None:
    """Give LoRA's B matrices random values; initially they are 0, and the adapters without effect."""
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.05, generator=torch.Generator().manual_seed(0))


if __name__ == "__main__":
    main()
