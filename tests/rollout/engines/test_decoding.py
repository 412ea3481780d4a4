"""The loop over tokens: what it costs, and what it must not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from tests.conftest import Tiny
from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.policy.families import all_families
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Limits, Request, Sampling, hf
from vlrft.rollout.engines.decoding import LOOK_EVERY
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import Piece
from vlrft.testing.operator_meter import count_operators
from vlrft.testing.small_policies import CORPUS, FAMILIES, Family, ask


def requests_of(policy: Policy, prompts: int, rows: int) -> list[Request]:
    return [
        Request(
            id=str(i),
            prompt=policy.chat.render(ask("How many?" + " and" * (i % 5))),
            seeds=tuple(range(rows * i, rows * (i + 1))),
        )
        for i in range(prompts)
    ]


def steps_of(policy: Policy, work: Callable[[], object]) -> list[int]:
    """Rows of each decoding step."""
    sizes: list[int] = []

    def note(module: object, args: object, options: dict[str, Any]) -> None:
        rows, length = options["inputs_embeds"].shape[:2]
        if length == 1:
            sizes.append(rows)

    hook = policy.backbone.decoder.register_forward_pre_hook(note, with_kwargs=True)
    work()
    hook.remove()
    return sizes


def lengths_of(groups: Sequence[Sequence[Piece]]) -> list[int]:
    return [len(piece.ids) for group in groups for piece in group]


@pytest.mark.parametrize(
    ("limits", "stop"), [(Limits(max_rows=5), ()), (Limits(max_cache_tokens=400), ("e",))]
)
def test_the_schedule_changes_no_answer(tiny: Tiny, limits: Limits, stop: tuple[str, ...]) -> None:
    policy = tiny("qwen2_vl")
    requests = requests_of(policy, prompts=5, rows=4)
    sampling = Sampling(max_tokens=24, temperature=3.0, stop=stop)
    whole = HfEngine(policy).generate(requests, sampling)
    few = Sampling(max_tokens=24, temperature=3.0, stop=stop, limits=limits)
    refilled = HfEngine(policy).generate(requests, few)
    assert len(set(lengths_of(whole))) > 2
    for one, other in zip(sum(whole, ()), sum(refilled, ()), strict=True):
        assert (one.ids, one.text, one.finish) == (other.ids, other.text, other.finish)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_waiting_completions_take_the_place_of_those_that_ended(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2")
    monkeypatch.setattr(policy.chat, "end_ids", frozenset(range(40, 60)))  # about every 15th token
    requests = requests_of(policy, prompts=24, rows=2)
    sampling = Sampling(max_tokens=64, temperature=3.0, limits=Limits(max_rows=8))
    lengths: list[int] = []
    engine = HfEngine(policy)
    sizes = steps_of(
        policy, lambda: lengths.extend(lengths_of(engine.generate(requests, sampling)))
    )
    order = sorted(range(24), key=lambda i: -len(requests[i].prompt.ids))
    longest = [max(lengths[2 * i : 2 * i + 2]) for i in order]
    one_batch_after_another = sum(max(longest[k : k + 4]) - 1 for k in range(0, 24, 4))
    assert max(sizes) == 8
    assert len(sizes) < 0.8 * one_batch_after_another


@pytest.mark.parametrize("stop", [(), ("never",)])
def test_the_host_waits_for_the_device_once_in_several_tokens(
    tiny: Tiny, stop: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2_vl")
    monkeypatch.setattr(policy.chat, "end_ids", frozenset())
    requests = requests_of(policy, prompts=2, rows=3)
    engine, syncs = HfEngine(policy), []
    for looks in (1, 5):
        sampling = Sampling(max_tokens=1 + looks * LOOK_EVERY, stop=stop)
        with count_operators() as counts:
            engine.generate(requests, sampling)
        syncs.append(counts.syncs.total())
    assert syncs[1] - syncs[0] == 4  # one for each further look


LEAN = [name for name, family in all_families().items() if family.attention_class]


@pytest.mark.parametrize(
    ("family", "lora"),
    [*((name, None) for name in LEAN), (LEAN[0], LoraConfig(rank=2))],
    ids=[*LEAN, f"{LEAN[0]}, LoRA"],
)
def test_a_token_takes_fewer_operators_than_with_generate(
    family: Family, lora: LoraConfig | None
) -> None:
    """transformers' generate() dispatches 42 a layer in bfloat16, without padding, and 84 with LoRA."""
    build = BuildConfig(family=family, hidden_size=32, layers=2, heads=4, kv_heads=2, intermediate_size=32, vocab_size=300)  # fmt: skip
    policy = load_policy(PolicyConfig(build=build, lora=lora, dtype="bfloat16"), corpus=CORPUS)
    policy.chat.end_ids = frozenset()
    requests = requests_of(policy, prompts=2, rows=2)
    totals = []
    for layers in (2, 1):
        policy.backbone.decoder.layers = policy.backbone.decoder.layers[:layers]
        policy.backbone.decoder.config.num_hidden_layers = layers
        for looks in (1, 2):
            with count_operators() as counts:
                HfEngine(policy).generate(requests, Sampling(max_tokens=1 + looks * LOOK_EVERY))
            totals.append(counts.operators.total())
    two, one = totals[1] - totals[0], totals[3] - totals[2]
    assert 0 < (two - one) / LOOK_EVERY <= (41 if lora is None else 83)


@pytest.mark.parametrize("family", FAMILIES)
def test_lean_layers_compute_the_same_bits(
    tiny: Tiny, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny(family)
    requests = requests_of(policy, prompts=3, rows=2)
    lean = HfEngine(policy).generate(requests, Sampling(max_tokens=5))
    layer = policy.backbone.decoder.layers[-1].self_attn
    assert "forward" not in layer.__dict__
    monkeypatch.setattr(hf, "lean_attention", lambda decoder: nullcontext())
    plain = HfEngine(policy).generate(requests, Sampling(max_tokens=5))
    assert [[piece.logprobs for piece in group] for group in lean] == [
        [piece.logprobs for piece in group] for group in plain
    ]
