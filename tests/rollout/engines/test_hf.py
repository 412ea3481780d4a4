"""Sampling with the policy's own module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from tests.conftest import Tiny
from vlrft.config import LoraConfig
from vlrft.memory import admission
from vlrft.memory.limits import KEEP_SHARE
from vlrft.policy.attention.compact import count_common_tokens
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import replicated_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Limits, Request, Sampling
from vlrft.rollout.engines.decoding import LOOK_EVERY
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, DataError, Piece, Prompt
from vlrft.testing.small_policies import (
    CORPUS,
    FAMILIES,
    Family,
    ask,
    noise_image,
    plain_generate,
    tiny_config,
)

GREEDY = Sampling(max_tokens=12, temperature=0.0)


def prompts_of(policy: Policy) -> list[Prompt]:
    """Prompts of different lengths: text, one image, two images, one of another size."""
    chat = policy.chat
    prompts = [chat.render(ask("Hello there, how many?")), chat.render(ask("?"))]
    if policy.backbone.multimodal:
        square = noise_image(112, 112, 1)
        prompts += [
            chat.render(ask(IMAGE, "Which digit is this?"), [square]),
            chat.render(ask(IMAGE, "and", IMAGE), [noise_image(196, 84, 2), square]),
            chat.render(ask(IMAGE, "?"), [noise_image(60, 130, 3)]),
        ]
    return prompts


def requests_of(policy: Policy, rows: int = 3) -> list[Request]:
    return [
        Request(id=f"s/{i}", prompt=prompt, seeds=tuple(range(100 * i, 100 * i + rows)))
        for i, prompt in enumerate(prompts_of(policy))
    ]


def ids_of(groups: Sequence[Sequence[Piece]]) -> list[list[tuple[int, ...]]]:
    return [[piece.ids for piece in group] for group in groups]


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_equals_transformers_generate_in_a_padded_mixed_batch(
    tiny: Tiny, family: Family
) -> None:
    policy = tiny(family)
    groups = HfEngine(policy).generate(requests_of(policy, rows=2), GREEDY)
    for prompt, group in zip(prompts_of(policy), groups, strict=True):
        expected = plain_generate(policy, prompt, GREEDY.max_tokens)
        assert [piece.ids for piece in group] == [expected, expected]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_are_those_of_the_plain_forward(
    tiny: Tiny, family: Family, temperature: float
) -> None:
    policy = tiny(family)
    requests = requests_of(policy)
    groups = HfEngine(policy).generate(requests, Sampling(max_tokens=9, temperature=temperature))
    items = [
        PackItem(prompt=request.prompt, rows=tuple(piece.ids for piece in group))
        for request, group in zip(requests, groups, strict=True)
    ]
    pieces = [piece for group in groups for piece in group]
    mask = torch.tensor([[t < len(p.ids) for t in range(9)] for p in pieces])
    with torch.no_grad():
        plain = replicated_logprobs(policy, items, mask=mask, temperature=temperature).logprobs
    # transformers sums the decays of recurrent layers over 64 tokens, and in decoding one by one
    bound = 5e-5 if policy.backbone.recurrent_layers else 1e-5
    for b, piece in enumerate(pieces):
        sampled = torch.tensor(piece.logprobs)
        assert float((plain[b, : len(sampled)] - sampled).abs().max()) <= bound


def test_tokens_of_a_seed_do_not_depend_on_the_batch(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    requests = requests_of(policy, rows=4)
    sampling = Sampling(max_tokens=10)
    together = ids_of(HfEngine(policy).generate(requests, sampling))
    assert together == ids_of(HfEngine(policy).generate(requests, sampling))
    assert len({ids for group in together for ids in group}) > 15  # seeds do differ
    for request, expected in zip(requests, together, strict=True):
        alone = [
            HfEngine(policy).generate([replace(request, seeds=(seed,))], sampling)[0][0].ids
            for seed in request.seeds
        ]
        assert alone == expected
    for rows in (1, 3, 5, 9):  # prompts split over several batches
        few = replace(sampling, limits=Limits(max_rows=rows))
        assert ids_of(HfEngine(policy).generate(requests, few)) == together
    assert ids_of(HfEngine(policy).generate(requests[::-1], sampling)) == together[::-1]
    longer = ids_of(HfEngine(policy).generate(requests, Sampling(max_tokens=14)))
    assert [[ids[:10] for ids in group] for group in longer] == together


def test_sampled_tokens_are_as_frequent_as_their_probabilities(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    prompt = prompts_of(policy)[2]
    rows = 4000
    request = Request(id="s", prompt=prompt, seeds=tuple(range(rows)))
    one = Sampling(max_tokens=1, limits=Limits(max_rows=rows))
    (group,) = HfEngine(policy).generate([request], one)
    counts = torch.bincount(torch.tensor([piece.ids[0] for piece in group]), minlength=320)
    every = PackItem(
        prompt=prompt, rows=tuple((i,) for i in range(320) if i not in policy.backbone.place_ids)
    )
    with torch.no_grad():
        mask = torch.ones(len(every.rows), 1, dtype=torch.bool)
        logprobs = replicated_logprobs(policy, [every], mask=mask, temperature=1.0).logprobs[:, 0]
    shares = torch.zeros(320).scatter(0, torch.tensor([r[0] for r in every.rows]), logprobs.exp())
    assert float(shares.sum()) == pytest.approx(1, abs=1e-5)
    # Five standard errors of each share.
    spread = (shares * (1 - shares) / rows).sqrt()
    assert bool(((counts / rows - shares).abs() <= 5 * spread + 1e-3).all())
    assert not counts[sorted(policy.chat.banned_ids)].any()


def test_banned_tokens_are_never_sampled(tiny: Tiny) -> None:
    policy = tiny("qwen2_5_vl")
    groups = HfEngine(policy).generate(
        requests_of(policy, rows=40), Sampling(max_tokens=10, temperature=5.0)
    )
    sampled = {i for group in groups for piece in group for i in piece.ids}
    assert len(sampled) > 200
    assert not sampled & policy.chat.banned_ids


def test_an_answer_ends_with_its_end_token_or_at_the_limit(tiny: Tiny) -> None:
    policy = tiny("qwen2")
    groups = HfEngine(policy).generate(
        requests_of(policy, rows=64), Sampling(max_tokens=40, temperature=3.0)
    )
    pieces = [piece for group in groups for piece in group]
    finishes = {piece.finish for piece in pieces}
    assert finishes == {"stop", "length"}
    for piece in pieces:
        assert len(piece.logprobs) == len(piece.ids)
        assert not set(piece.ids[:-1]) & policy.chat.end_ids
        ended = piece.ids[-1] in policy.chat.end_ids
        assert ended == (piece.finish == "stop")
        assert len(piece.ids) == 40 or ended
        assert piece.text == policy.chat.decode(piece.ids)


def test_finished_rows_leave_the_batch(tiny: Tiny) -> None:
    policy = tiny("qwen2")
    sizes: list[int] = []
    hook = policy.backbone.head.register_forward_hook(lambda m, args, out: sizes.append(len(out)))
    groups = HfEngine(policy).generate(
        requests_of(policy, rows=64), Sampling(max_tokens=200, temperature=3.0)
    )
    hook.remove()
    lengths = [len(piece.ids) for group in groups for piece in group]
    assert max(lengths) > 50
    # Rows that have ended are dropped when less than 0.75 of the rows are left; until the next look they go on.
    assert sum(sizes) < (sum(lengths) + LOOK_EVERY * len(lengths)) / KEEP_SHARE
    assert len(sizes) < max(lengths) + LOOK_EVERY


def test_stop_strings_end_an_answer_and_are_not_part_of_its_text(tiny: Tiny) -> None:
    policy = tiny("qwen2")
    requests = requests_of(policy, rows=64)
    free = HfEngine(policy).generate(requests, Sampling(max_tokens=20))
    texts = [piece.text for group in free for piece in group]
    stops = ("answer>", "e", "How")
    assert any(stop in text for text in texts for stop in stops)
    stopped = HfEngine(policy).generate(requests, Sampling(max_tokens=20, stop=stops))
    for before, piece in zip(
        (p for group in free for p in group), (p for group in stopped for p in group), strict=True
    ):
        assert piece.ids == before.ids[: len(piece.ids)]  # exactly as sampled
        hits = [before.text.find(stop) for stop in stops if stop in before.text]
        if not hits:
            assert (piece.ids, piece.text, piece.finish) == (before.ids, before.text, before.finish)
            # not the same bits: rows leave the batch earlier, and kernels differ by its size
            assert piece.logprobs == pytest.approx(before.logprobs, abs=1e-5)
            continue
        assert piece.text == before.text[: min(hits)]
        assert piece.finish == "stop"
        whole = policy.chat.decode(piece.ids)
        assert any(stop in whole for stop in stops)
        assert not any(stop in policy.chat.decode(piece.ids[:-1]) for stop in stops)


def test_images_are_encoded_and_prompts_run_once(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    patches: list[int] = []
    shapes: list[tuple[int, ...]] = []
    hooks = [
        policy.model.model.visual.patch_embed.register_forward_hook(
            lambda m, args, out: patches.append(len(args[0]))
        ),
        policy.backbone.decoder.register_forward_pre_hook(
            lambda m, args, kw: shapes.append(tuple(kw["inputs_embeds"].shape[:2])),
            with_kwargs=True,
        ),
    ]
    requests = requests_of(policy, rows=5)
    HfEngine(policy).generate(requests, Sampling(max_tokens=3))
    for hook in hooks:
        hook.remove()
    distinct = {i.key: len(i.values) for r in requests for i in r.prompt.images}
    assert patches == [sum(distinct.values())]
    prompts = [request.prompt for request in requests]
    common = count_common_tokens(prompts, policy.backbone.place_ids)
    assert shapes[0] == (1, common + sum(len(prompt.ids) - common for prompt in prompts))
    assert shapes[1:] == [(25, 1)] * 2


def test_the_answers_do_not_depend_on_the_batches(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2_vl")
    requests = requests_of(policy)
    whole = ids_of(HfEngine(policy).generate(requests, GREEDY))
    small = replace(GREEDY, limits=Limits(max_cache_tokens=200))
    assert ids_of(HfEngine(policy).generate(requests, small)) == whole
    monkeypatch.setattr(admission, "PREFILL_TOKENS", 1)
    assert ids_of(HfEngine(policy).generate(requests, GREEDY)) == whole


def test_a_prompt_that_is_too_long_is_refused_by_name(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    short = replace(GREEDY, limits=Limits(max_prompt_tokens=60))
    prompt = policy.chat.render(ask(IMAGE, "?"), [noise_image(280, 280)])
    with pytest.raises(
        DataError, match=r"digits/7: the prompt has \d+ tokens \(100 of images\), more than"
    ):
        HfEngine(policy).generate([Request(id="digits/7", prompt=prompt, seeds=(0,))], short)


def test_training_mode_is_restored_and_checkpointing_changes_nothing() -> None:
    config = tiny_config("qwen2_vl", activation_checkpointing=True)
    policy = load_policy(config, corpus=CORPUS)
    policy.model.model.visual.eval()
    before = [m.training for m in policy.model.modules()]
    groups = HfEngine(policy).generate(requests_of(policy), GREEDY)
    assert [m.training for m in policy.model.modules()] == before
    plain = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS)
    assert ids_of(groups) == ids_of(HfEngine(plain).generate(requests_of(plain), GREEDY))


def test_lora_samples_with_the_adapters_on() -> None:
    policy = load_policy(tiny_config("qwen2", lora=LoraConfig(rank=4)), corpus=CORPUS)
    plain = ids_of(HfEngine(policy).generate(requests_of(policy), GREEDY))
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.1, generator=torch.Generator().manual_seed(0))
    engine = HfEngine(policy)
    assert ids_of(engine.generate(requests_of(policy), GREEDY)) != plain
    reference = HfEngine(policy.reference())
    assert ids_of(reference.generate(requests_of(policy), GREEDY)) == plain


def test_no_requests_and_no_seeds_give_nothing(tiny: Tiny) -> None:
    policy = tiny("qwen2")
    assert HfEngine(policy).generate([], GREEDY) == []
    request = Request(id="s", prompt=prompts_of(policy)[0], seeds=())
    assert HfEngine(policy).generate([request], GREEDY) == [()]
