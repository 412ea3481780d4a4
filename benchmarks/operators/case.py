"""One case of benchmarks.operators: a policy of the true depth and small width, counted in a token and in an update.

    python -m benchmarks.operators.case '{"family": "qwen2_vl", "lora": true}'

Prints a line of JSON for each piece of work.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any
from unittest.mock import patch

import torch
from pydantic import TypeAdapter

from vlrft.config import BuildConfig, LoraConfig, PolicyConfig, UpdateConfig
from vlrft.engine.single import SingleEngine
from vlrft.policy.chat import Chat
from vlrft.policy.load import checkpoint_activations, load_policy
from vlrft.policy.logprobs import model_inputs, packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Prompt
from vlrft.testing.operator_meter import OperatorCounts, count_operators
from vlrft.testing.small_policies import ask, noise_image
from vlrft.trainer.api.evaluate import evaluate

LAYERS, VISION_LAYERS = 28, 32  # of Qwen2-VL-2B; counts do not depend on the widths
SHORT, LONG = (
    8,
    40,
)  # tokens of the two rollouts whose difference is divided by the difference of their lengths
GROUP, ANSWER = 8, 16
QUESTIONS, TASK = 512, "vlrft.testing.count_step:task"
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """`side`: of the images, in pixels. `groups`: of the updates, each count in an update of its own."""

    family: str = "qwen2_vl"
    lora: bool = False
    side: int = 448
    groups: tuple[int, ...] = (1, 4)
    layers: int = LAYERS
    vision_layers: int = VISION_LAYERS


SMALL = Case(layers=2, vision_layers=2)


def make_policy(case: Case) -> Policy:
    build: Any = BuildConfig
    sizes = build(
        family=case.family, hidden_size=192, heads=12, kv_heads=2, intermediate_size=256, layers=case.layers,
        vision_width=64, vision_heads=4, vision_layers=case.vision_layers,
    )  # fmt: skip
    lora = LoraConfig() if case.lora else None
    config = PolicyConfig(build=sizes, dtype="bfloat16", lora=lora)
    policy = load_policy(config, corpus=["Which class is this?"] * 8, seed=0)
    policy.chat.end_ids = frozenset()  # every answer is as long as it may be
    tower: Any = policy.backbone.vision_tower
    if hasattr(tower, "fullatt_block_indexes"):  # as released: the other layers attend in windows
        last = range(7, case.vision_layers, 8) if case.vision_layers > 7 else range(1)
        tower.fullatt_block_indexes = tower.config.fullatt_block_indexes = list(last)
    return policy


def make_prompts(policy: Policy, count: int, side: int) -> list[Prompt]:
    question = ask(IMAGE, "Which class is this?")
    return [policy.chat.render(question, [noise_image(side, side, k)]) for k in range(count)]


def count(work: Callable[[], object]) -> OperatorCounts:
    with count_operators() as counts:
        work()
    return counts


def row(work: str, side: str, operators: float, syncs: float) -> Row:
    return {"work": work, "side": side, "operators": round(operators, 1), "syncs": round(syncs, 2)}


def row_of(work: str, counts: OperatorCounts) -> Row:
    return row(work, "vlrft", counts.operators.total(), counts.syncs.total())


def tokens(policy: Policy, prompts: list[Prompt]) -> Iterator[Row]:
    """Of one more token of a rollout of two groups of four."""
    requests = [Request(id=str(k), prompt=p, seeds=(0, 1, 2, 3)) for k, p in enumerate(prompts)]
    engine = HfEngine(policy)
    ids = torch.tensor([prompt.ids for prompt in prompts])
    images = [image for prompt in prompts for image in prompt.images]
    inputs = model_inputs(policy, ids, torch.ones_like(ids), images)

    def sample(length: int, **settings: Any) -> Callable[[], object]:
        return lambda: engine.generate(requests, Sampling(max_tokens=length, **settings))

    def generate(length: int) -> Callable[[], object]:
        limits = {"min_new_tokens": length, "max_new_tokens": length, "num_return_sequences": 4}
        draws = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0}
        return lambda: policy.model.generate(**inputs, **limits, **draws)

    yield difference("token", "vlrft", sample)
    yield difference("token, greedy", "vlrft", lambda n: sample(n, temperature=0.0))
    policy.model.eval()
    with torch.no_grad():
        yield difference("token", "generate()", generate)
    policy.model.train()


def difference(work: str, side: str, rollout: Callable[[int], Callable[[], object]]) -> Row:
    rollout(2)()
    short, long = (count(rollout(length)) for length in (SHORT, LONG))
    more = LONG - SHORT
    return row(
        work,
        side,
        (long.operators.total() - short.operators.total()) / more,
        (long.syncs.total() - short.syncs.total()) / more,
    )


def backward(engine: SingleEngine, loss: torch.Tensor) -> None:
    last = (
        {"last": True} if "last" in signature(engine.backward).parameters else {}
    )  # not in every checkout
    engine.backward(loss, **last)


def updates(policy: Policy, prompts: list[Prompt]) -> Iterator[Row]:
    """Of forward, backward and optimiser step; with checkpointing, `backward` also runs the layers again."""
    answers = tuple(tuple(range(20, 20 + ANSWER)) for _ in range(GROUP))
    items = [PackItem(prompt=prompt, rows=answers) for prompt in prompts]
    mask = torch.ones(GROUP * len(items), ANSWER, dtype=torch.bool)
    name = f"{len(items)} group{'s' * (len(items) > 1)}"
    engine = SingleEngine(UpdateConfig(lr=1e-6), policy, 10**6)

    def forward() -> torch.Tensor:
        return packed_logprobs(policy, items, mask=mask, temperature=1.0).logprobs

    backward(engine, forward().sum())
    engine.step()  # which makes Adam's moments
    for suffix in ("", ", checkpointing"):
        if suffix:
            checkpoint_activations(policy.model)
        with count_operators() as forwards:
            loss = forward().sum()
        with count_operators() as backwards:
            backward(engine, loss)
        if not suffix:
            yield row_of(f"update of {name}: forward", forwards)
        yield row_of(f"update of {name}: backward{suffix}", backwards)
    policy.model.gradient_checkpointing_disable()  # the name that every version of transformers has
    if len(items) == 1:
        yield row_of("optimiser step", count(engine.step))


def tower(policy: Policy, case: Case) -> Iterator[Row]:
    for number, side in ((1, case.side), (1, 2 * case.side), (4, case.side)):
        prompts = make_prompts(policy, number, side)
        backbone, ids = policy.backbone, torch.tensor([prompt.ids for prompt in prompts])
        images = backbone.collect_images(prompts)
        with torch.no_grad(), count_operators() as counts:
            backbone.embed(ids, images)
        yield row_of(f"tower forward, {number} image{'s' * (number > 1)} of {side}²", counts)


def stop_strings(policy: Policy, prompts: list[Prompt]) -> Row:
    """Texts decoded by a second rollout with a stop string, its two answers aside."""
    engine, sampling = HfEngine(policy), Sampling(max_tokens=1, stop=("ß",))
    requests = [Request(id="", prompt=prompts[0], seeds=(0, 1))]
    engine.generate(requests, sampling)
    decode, decoded = Chat.decode_all, [0]

    def count_texts(chat: Chat, ids: Any) -> list[str]:
        decoded[0] += len(ids)
        return decode(chat, ids)

    with patch.object(Chat, "decode_all", count_texts):
        engine.generate(requests, sampling)
    return {"work": "texts decoded for stop strings, a portion", "side": "vlrft", "operators": decoded[0] - 2, "syncs": 0}  # fmt: skip


def evaluation(policy: Policy) -> Row:
    """Of a whole evaluation: with the same rows at once, fewer passes of more rows."""
    options = {"options.groups": [True] * QUESTIONS, "options.same": True, "rollout.max_tokens": 8}
    counts = count(lambda: evaluate(policy, TASK, overrides=options, progress=False))
    return row_of(f"evaluation of {QUESTIONS} questions, 8 tokens, {SMALL.layers} layers", counts)


def measure(case: Case) -> Iterator[Row]:
    policy = make_policy(case)
    prompts = make_prompts(policy, max(2, *case.groups), case.side)
    yield from tokens(policy, prompts[:2])
    if not case.lora:
        yield stop_strings(policy, prompts)
        yield from tower(policy, case)
        yield evaluation(make_policy(replace(SMALL, family=case.family)))
    for groups in case.groups:
        yield from updates(policy, prompts[:groups])


def main() -> None:
    case = TypeAdapter(Case).validate_json(sys.argv[1])
    for result in measure(case):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
