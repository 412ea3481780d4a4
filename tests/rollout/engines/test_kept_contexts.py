"""Turns of growing conversations: contexts that are kept between them change no completion, and spare their prefill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.conftest import Tiny
from vlrft.config import LoraConfig
from vlrft.memory.admission import CacheUse
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Limits, Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.prompt_runs import PromptRuns
from vlrft.schema import IMAGE, DataError, Piece, Prompt
from vlrft.testing.small_policies import (
    CORPUS,
    FAMILIES,
    Family,
    ask,
    noise_image,
    tiny_config,
)

SAMPLING = Sampling(max_tokens=9)
RAGGED = Sampling(max_tokens=24, temperature=3.0)  # rows end at different times
TURNS = (1, 4, 2, 4, 3)  # of each episode; 0 and 1 share their first prompt, and 2 and 3


@contextmanager
def prefilled_tokens(policy: Policy) -> Iterator[list[int]]:
    """Tokens of each call of the decoder that is no decoding step."""
    counts: list[int] = []

    def note(module: object, args: object, options: dict[str, Any]) -> None:
        if "shared_prefix" not in options:
            counts.append(options["inputs_embeds"].shape[:2].numel())

    hook = policy.backbone.decoder.register_forward_pre_hook(note, with_kwargs=True)
    yield counts
    hook.remove()


def first_prompt(policy: Policy, episode: int) -> Prompt:
    question = f"How many{' and' * (5 * (episode // 2))}?"
    if policy.backbone.multimodal and episode > 1:
        return policy.chat.render(ask(IMAGE, question), [noise_image(112, 84, episode // 2)])
    return policy.chat.render(ask(question))


def next_prompt(policy: Policy, prompt: Prompt, piece: Piece, episode: int, turn: int) -> Prompt:
    """The whole conversation with the next observation: ragged, and with images in some."""
    shown = policy.backbone.multimodal and (episode + turn) % 2
    images = [noise_image(56, 56, 10 * episode + turn)] if shown else []
    messages = ask(*[IMAGE] * len(images), "Hello there " * (1 + (episode + turn) % 3))
    new = policy.chat.follow(piece.ids, messages, images, (), name="s")
    return Prompt(ids=prompt.ids + piece.ids + new.ids, images=prompt.images + new.images)


def request_of(prompt: Prompt, episode: int, turn: int) -> Request:
    return Request(id=f"s/{episode // 2}", prompt=prompt, seeds=(9 * episode + turn,), grows=True)


Generate = Callable[[Sequence[Request]], list[tuple[Piece, ...]]]


def play_turns(
    policy: Policy, generate: Generate
) -> tuple[list[list[Piece]], list[int], list[int]]:
    """Of each turn: the pieces, the tokens that are run for its prompts, and those that are not in the contexts before it."""
    prompts = {k: first_prompt(policy, k) for k in range(len(TURNS))}
    played: list[list[Piece]] = []
    run: list[int] = []
    new: list[int] = []
    known = dict.fromkeys(prompts, 0)
    for turn in range(max(TURNS)):
        running = [k for k in prompts if TURNS[k] > turn]
        new.append(sum(len(prompts[k].ids) - known[k] for k in running))
        with prefilled_tokens(policy) as counts:
            pieces = [p for (p,) in generate([request_of(prompts[k], k, turn) for k in running])]
        run.append(sum(counts))
        played.append(pieces)
        for k, piece in zip(running, pieces, strict=True):
            known[k] = len(prompts[k].ids) + len(piece.ids) - 1
            prompts[k] = next_prompt(policy, prompts[k], piece, k, turn)
    return played, run, new


def whole_turns(policy: Policy, sampling: Sampling = SAMPLING) -> list[list[Piece]]:
    """Each turn by an engine of its own, which has kept nothing."""
    return play_turns(policy, lambda requests: HfEngine(policy).generate(requests, sampling))[0]


def assert_equal_turns(turns: list[list[Piece]], expected: list[list[Piece]]) -> None:
    assert [[p.ids for p in turn] for turn in turns] == [[p.ids for p in turn] for turn in expected]
    for turn, expected_turn in zip(turns, expected, strict=True):
        for piece, other in zip(turn, expected_turn, strict=True):
            # not the same bits: a token's keys are those of a decoding step or of a prefill
            assert piece.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_kept_contexts_change_no_completion_and_only_new_tokens_are_run(
    tiny: Tiny, family: Family
) -> None:
    policy, engine = tiny(family), HfEngine(tiny(family))
    expected = whole_turns(policy)
    turns, run, new = play_turns(policy, lambda requests: engine.generate(requests, SAMPLING))
    assert_equal_turns(turns, expected)
    if policy.backbone.recurrent_layers:  # their states cannot be cut where a completion ends
        assert min(run[1:]) > max(new[1:])
    else:
        assert run[1:] == new[1:]


@pytest.mark.parametrize(
    "sampling",
    [
        replace(SAMPLING, temperature=0.0),
        RAGGED,
        replace(SAMPLING, stop=("e", "o")),
        replace(SAMPLING, max_tokens=1),
        replace(SAMPLING, limits=Limits(max_rows=2)),
        replace(SAMPLING, limits=Limits(max_cache_tokens=500)),  # some contexts have no room
    ],
    ids=["greedy", "ragged", "stops", "one token", "few rows", "little room"],
)
def test_kept_contexts_change_no_completion_however_rows_end(
    tiny: Tiny, sampling: Sampling
) -> None:
    policy, engine = tiny("qwen2_vl"), HfEngine(tiny("qwen2_vl"))
    turns, run, new = play_turns(policy, lambda requests: engine.generate(requests, sampling))
    assert_equal_turns(turns, whole_turns(policy, sampling))
    if sampling.limits.max_cache_tokens > 10_000:
        assert run[1:] == new[1:]
    else:  # some are run whole
        assert any(count > tokens for count, tokens in zip(run[1:], new[1:], strict=True))


def second_turn(
    policy: Policy, change: Callable[[HfEngine, Prompt, Piece], Prompt | None], **options: Any
) -> tuple[int, Prompt, Piece]:
    """Tokens that are run for the second turn of an episode, its prompt and completion. `change`: called before it; returns
    another prompt, if any."""
    engine, prompt = HfEngine(policy), first_prompt(policy, 3)
    request = replace(request_of(prompt, 3, 0), **options)
    ((piece,),) = engine.generate([request], SAMPLING)
    prompt = next_prompt(policy, prompt, piece, 3, 0)
    prompt = change(engine, prompt, piece) or prompt
    with prefilled_tokens(policy) as counts:
        ((second,),) = engine.generate([request_of(prompt, 3, 1)], SAMPLING)
    ((expected,),) = HfEngine(policy).generate([request_of(prompt, 3, 1)], SAMPLING)
    assert_equal_turns([[second]], [[expected]])
    return sum(counts), prompt, piece


def test_another_prefix_is_run_whole(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    run, prompt, piece = second_turn(policy, lambda *_: None)
    kept = len(first_prompt(policy, 3).ids) + len(piece.ids) - 1
    assert run == len(prompt.ids) - kept

    def edit(place: int) -> Callable[..., Prompt]:
        def change(engine: HfEngine, prompt: Prompt, piece: Piece) -> Prompt:
            ids = list(prompt.ids)
            ids[place] = 5 if ids[place] != 5 else 6
            return replace(prompt, ids=tuple(ids))

        return change

    def other_image(engine: HfEngine, prompt: Prompt, piece: Piece) -> Prompt:
        (image,) = policy.chat.process_images([noise_image(112, 84, 99)])
        assert image.grid == prompt.images[0].grid
        return replace(prompt, images=(image, *prompt.images[1:]))

    def shorter(engine: HfEngine, prompt: Prompt, piece: Piece) -> Prompt:
        return replace(prompt, ids=prompt.ids[:kept], images=prompt.images[:1])

    for change in (edit(0), edit(kept - 1), other_image, shorter):
        run, prompt, _ = second_turn(policy, change)
        assert run == len(prompt.ids)


def test_nothing_is_kept_for_other_weights_after_the_end_or_an_error(tiny: Tiny) -> None:
    policy = tiny("qwen2")

    def refuse(engine: HfEngine, prompt: Prompt, piece: Piece) -> None:
        short = replace(SAMPLING, limits=Limits(max_prompt_tokens=2))
        with pytest.raises(DataError, match="the prompt has"):
            engine.generate([request_of(prompt, 3, 1)], short)

    for change, options in (
        (lambda engine, *_: engine.load_weights((), 1), {}),
        (lambda engine, *_: engine.finish(), {}),
        (lambda engine, *_: engine.generate([], SAMPLING), {}),  # an episode that has ended
        (refuse, {}),
        (lambda *_: None, {"grows": False}),
        (lambda *_: None, {"id": "another"}),
    ):
        run, prompt, _ = second_turn(policy, change, **options)
        assert run == len(prompt.ids)


def test_new_weights_sample_as_without_kept_contexts() -> None:
    policy = load_policy(tiny_config("qwen2", lora=LoraConfig(rank=4)), corpus=CORPUS)

    def train(engine: HfEngine, prompt: Prompt, piece: Piece) -> None:
        with torch.no_grad():
            for name, parameter in policy.model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(0, 0.3, generator=torch.Generator().manual_seed(0))
        engine.load_weights((), 1)

    run, prompt, _ = second_turn(policy, train)
    assert run == len(prompt.ids)
    run, prompt, piece = second_turn(policy, lambda *_: None)  # with adapters
    assert run == len(prompt.ids) - len(first_prompt(policy, 3).ids) - len(piece.ids) + 1


@pytest.mark.parametrize("limits", [(300, 512), (500, 512), (600, 2)])
def test_what_is_kept_and_what_is_sampled_stay_within_the_limit(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    policy, engine = tiny("qwen2"), HfEngine(tiny("qwen2"))
    most, rows = limits
    sampling = replace(RAGGED, limits=Limits(max_cache_tokens=most, max_rows=rows))
    held: list[int] = []  # after each time that contexts are kept, the cache's rows included
    keep = PromptRuns.keep

    def note(runs: PromptRuns, rows: Any, leaving: Any, cache: Any, use: CacheUse) -> None:
        keep(runs, rows, leaving, cache, use)
        in_cache = use.prompts * use.longest + use.rows * sampling.max_tokens
        held.append(runs.kept.tokens + runs._past.tokens + in_cache)

    monkeypatch.setattr(PromptRuns, "keep", note)
    play_turns(policy, lambda requests: engine.generate(requests, sampling))
    assert most / 2 < max(held) <= most
