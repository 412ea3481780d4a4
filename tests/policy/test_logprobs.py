"""Packed against replicated log-probs and gradients.

Tolerances are float32's: with another order of summation a log-prob of size 10 changes by some 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from tests.conftest import Tiny
from tests.policy.test_linear_logprobs import rows_through
from vlrft.config import LoraConfig, PolicyConfig
from vlrft.memory import limits
from vlrft.policy import image_encoder
from vlrft.policy.attention.compact import count_common_tokens
from vlrft.policy.attention.rows import PackedRows
from vlrft.policy.backbone import attending
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import TokenLogprobs, packed_logprobs, replicated_logprobs, self_check
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Pixels
from vlrft.schema.errors import NonFiniteError, SelfCheckError
from vlrft.testing.packed_items import several_turns
from vlrft.testing.small_policies import CORPUS, FAMILIES, Family, ask, noise_image, tiny_config

TOLERANCE = 1e-5
Score = Callable[..., TokenLogprobs]


def mixed_items(policy: Policy) -> tuple[list[PackItem], Tensor]:
    """Groups of different sizes over prompts with one image, none, two (one shared) and one of another size; masks with gaps."""
    random = np.random.default_rng(0)
    chat = policy.chat
    square = noise_image(112, 112, 1)
    prompts = [
        chat.render(ask("How many threes, and how many more than fours?")),
        chat.render(ask("Text only")),
    ]
    if policy.backbone.multimodal:
        prompts += [
            chat.render(ask(IMAGE, "Which digit is this?"), [square]),
            chat.render(ask(IMAGE, "and", IMAGE, "?"), [noise_image(196, 84, 2), square]),
            chat.render(ask(IMAGE, "?"), [noise_image(60, 130, 3)]),
        ]
    free = [i for i in range(len(chat.tokenizer)) if i not in chat.banned_ids]
    groups = [(3, 9, 1), (5,), (7, 2, 4, 1), (6, 6), (8, 3)]
    items = [
        PackItem(
            prompt=prompt,
            rows=tuple(tuple(random.choice(free, n).tolist()) for n in lengths),
        )
        for prompt, lengths in zip(prompts, groups, strict=False)
    ]
    rows = [row for item in items for row in item.rows]
    mask = torch.zeros(len(rows), 10, dtype=torch.bool)
    for b, row in enumerate(rows):
        mask[b, : len(row)] = True
    mask[1, 3:5] = False  # tokens that an environment inserted
    mask[3] = False  # a row without any action
    if not policy.backbone.multimodal:
        return items, mask
    growing, growing_mask = several_turns(policy, square)
    width = max(growing_mask.shape[1], mask.shape[1])
    both = [torch.nn.functional.pad(m, (0, width - m.shape[1])) for m in (mask, growing_mask)]
    return [*items, growing], torch.cat(both)


def images_of(item: PackItem) -> list[Pixels]:
    """The images of the prompt and of its rows."""
    return [*item.prompt.images, *(image for row in item.images for image in row)]


def with_gradients(score: Score, policy: Policy) -> tuple[TokenLogprobs, dict[str, Tensor]]:
    items, mask = mixed_items(policy)
    policy.model.zero_grad()
    scores = score(policy, items, mask=mask, temperature=0.7)
    weights = torch.randn(mask.shape, generator=torch.Generator().manual_seed(1))
    (scores.logprobs * weights).sum().backward()  # type: ignore[no-untyped-call]
    named = policy.model.named_parameters()
    return scores, {n: p.grad for n, p in named if p.grad is not None}


def assert_equal(policy: Policy) -> None:
    packed, gradients = with_gradients(packed_logprobs, policy)
    plain, expected = with_gradients(replicated_logprobs, policy)
    assert float((packed.logprobs - plain.logprobs).detach().abs().max()) <= TOLERANCE
    assert float((packed.entropy - plain.entropy).abs().max()) <= TOLERANCE
    assert not packed.entropy.requires_grad
    assert gradients.keys() == expected.keys()
    trained = policy.trained_weights().keys()
    assert gradients.keys() == trained
    for name, gradient in expected.items():
        scale = max(
            float(gradient.norm()), 1e-4
        )  # biases of keys have a gradient of zero, up to rounding
        assert float((gradients[name] - gradient).norm()) <= TOLERANCE * scale, name


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_equals_replicated(family: Family, checkpointing: bool) -> None:
    config = tiny_config(family, activation_checkpointing=checkpointing)
    policy = load_policy(config, corpus=CORPUS)
    assert policy.model.training
    layers = [m for m in policy.model.modules() if getattr(m, "gradient_checkpointing", False)]
    assert bool(layers) == checkpointing
    assert_equal(policy)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl"])
def test_a_frozen_tower_encodes_an_image_once_and_changes_nothing(family: Family) -> None:
    """In rollouts and updates alike."""
    policy = load_policy(tiny_config(family, freeze=("vision", "projector")), corpus=CORPUS)
    patches: list[int] = []
    hook = policy.model.model.visual.patch_embed.register_forward_hook(
        lambda m, args, out: patches.append(len(args[0]))
    )
    items, mask = mixed_items(policy)
    requests = [Request(id="s", prompt=item.prompt, seeds=(0, 1)) for item in items]
    HfEngine(policy).generate(requests[3:], Sampling(max_tokens=2))
    for _ in range(2):
        packed_logprobs(policy, items, mask=mask, temperature=1.0)
    hook.remove()
    distinct = {image.key: image for item in items for image in images_of(item)}
    assert sum(patches) == sum(len(image.values) for image in distinct.values())
    assert_equal(policy)


def test_features_are_not_kept_while_the_projector_is_trained() -> None:
    policy = load_policy(tiny_config("qwen2_vl", freeze=("vision",)), corpus=CORPUS)
    assert_equal(policy)


def test_the_kept_features_of_a_frozen_tower_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        image_encoder, "FEATURE_BYTES", 40 * 64 * 4
    )  # the largest image has 24 features
    policy = load_policy(tiny_config("qwen2_vl", freeze=("vision", "projector")), corpus=CORPUS)
    assert_equal(policy)
    assert policy.backbone.image_encoder is not None
    assert 0 < policy.backbone.image_encoder.cache.bytes <= 40 * 64 * 4


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("family", FAMILIES)
def test_flex_attention_gives_the_same_log_probs(
    tiny: Tiny, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without gradients, which a CPU does not have for it, and not compiled, which takes a minute."""
    monkeypatch.setattr(
        "transformers.integrations.flex_attention.compile_friendly_flex_attention",
        lambda q, k, v, training, **rest: flex_attention(q, k, v, **rest),
    )
    policy = tiny(family)
    items, mask = mixed_items(policy)
    requests = [Request(id="s", prompt=item.prompt, seeds=(0, 1)) for item in items]
    with torch.no_grad():
        expected = packed_logprobs(policy, items, mask=mask, temperature=0.7).logprobs
        sampled = HfEngine(policy).generate(requests, Sampling(max_tokens=4))
        with attending(policy.backbone.decoder.config, "flex_attention"):
            logprobs = packed_logprobs(policy, items, mask=mask, temperature=0.7).logprobs
            again = HfEngine(policy).generate(requests, Sampling(max_tokens=4))
    assert float((logprobs - expected).abs().max()) <= TOLERANCE
    assert again == sampled


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen2"])
def test_packed_equals_replicated_with_lora(family: Family, checkpointing: bool) -> None:
    config = tiny_config(family, lora=LoraConfig(rank=4), activation_checkpointing=checkpointing)
    policy = load_policy(config, corpus=CORPUS)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:  # initially zero: the adapters would have no effect
                parameter.normal_(0, 0.05, generator=torch.Generator().manual_seed(0))
    assert_equal(policy)


def test_packed_equals_replicated_for_another_text_architecture(tiny: Tiny, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    chat = tiny("qwen2").chat
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        eos_token_id=chat.end_id,
        bos_token_id=None,
        initializer_range=0.1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(tmp_path)
    chat.save(tmp_path)
    policy = load_policy(PolicyConfig(model=str(tmp_path), activation_checkpointing=True))
    assert_equal(policy)
    items, _ = mixed_items(policy)
    request = Request(id="s", prompt=items[0].prompt, seeds=(0, 1, 2))
    (pieces,) = HfEngine(policy).generate([request], Sampling(max_tokens=6))
    item = PackItem(prompt=request.prompt, rows=tuple(piece.ids for piece in pieces))
    mask = torch.ones(3, 6, dtype=torch.bool)
    with torch.no_grad():
        packed = packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs
    sampled = torch.tensor([piece.logprobs for piece in pieces])
    assert float((packed - sampled).abs().max()) <= TOLERANCE


def test_packed_equals_replicated_with_eager_attention() -> None:
    assert_equal(load_policy(tiny_config("qwen2_vl", attention="eager"), corpus=CORPUS))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_float64_stays_float64(attention: str) -> None:
    policy = load_policy(
        tiny_config("qwen2_5_vl", dtype="float64", attention=attention), corpus=CORPUS
    )
    items, mask = mixed_items(policy)
    with torch.no_grad():
        packed = packed_logprobs(policy, items, mask=mask, temperature=1.0)
        plain = replicated_logprobs(policy, items, mask=mask, temperature=1.0)
    assert packed.logprobs.dtype == torch.float64
    # The eager attention's softmax is float32 whatever the dtype.
    loaded = 1e-11 if attention == "sdpa" else TOLERANCE
    assert float((packed.logprobs - plain.logprobs).abs().max()) <= loaded


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2"])
def test_tokens_outside_the_mask_are_zero_without_gradient(tiny: Tiny, family: Family) -> None:
    policy = tiny(family)
    items, mask = mixed_items(policy)
    scores = packed_logprobs(policy, items, mask=mask, temperature=1.0)
    assert torch.equal(scores.logprobs != 0, mask)
    assert torch.equal(scores.entropy != 0, mask)
    (gradient,) = torch.autograd.grad(
        scores.logprobs[~mask].sum(), policy.backbone.head.weight, allow_unused=True
    )
    assert gradient is None or not gradient.any()


def test_each_image_is_encoded_once_and_each_prompt_is_run_once(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2_vl")
    items, mask = mixed_items(policy)
    patches: list[int] = []
    tokens: list[int] = []
    hooks = [
        policy.model.model.visual.patch_embed.register_forward_hook(
            lambda m, args, out: patches.append(len(args[0]))
        ),
        policy.backbone.decoder.register_forward_pre_hook(
            lambda m, args, kw: tokens.append(kw["inputs_embeds"].shape[:2].numel()),
            with_kwargs=True,
        ),
    ]
    rows = rows_through(policy.backbone.head, monkeypatch)
    packed_logprobs(policy, items, mask=mask, temperature=1.0)
    for hook in hooks:
        hook.remove()
    distinct = {image.key: image for item in items for image in images_of(item)}
    assert patches == [sum(len(image.values) for image in distinct.values())]
    common = count_common_tokens([item.prompt for item in items], policy.backbone.place_ids)
    prompts = sum(len(item.prompt.ids) - common for item in items)
    answers = sum(
        int(row.nonzero().max()) for row in mask if row.any()
    )  # up to the last wanted token
    assert tokens == [common + prompts + answers]
    assert rows == [int(mask.sum())]


def test_self_check_passes_and_names_the_row_that_differs(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2_vl")
    items, mask = mixed_items(policy)
    names = [f"sample/{b}" for b in range(len(mask))]
    assert self_check(policy, items, mask=mask, temperature=1.0, names=names) <= TOLERANCE

    monkeypatch.setattr(PackedRows, "shared", lambda rows: [])  # completions without their prompts
    with pytest.raises(SelfCheckError, match=r"^sample/\d+: packed and replicated .* 0.0001"):
        self_check(policy, items, mask=mask, temperature=1.0, names=names)


def test_self_check_tells_rounding_from_rows_without_their_prompts_in_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = load_policy(tiny_config("qwen2", dtype="bfloat16"), corpus=CORPUS)
    items, mask = mixed_items(policy)
    assert self_check(policy, items, mask=mask, temperature=1.0) > 1e-4
    monkeypatch.setattr(PackedRows, "shared", lambda rows: [])
    with pytest.raises(SelfCheckError, match=r"bfloat16.*self_check=false trains"):
        self_check(policy, items, mask=mask, temperature=1.0)


def test_self_check_says_so_where_the_log_probs_are_not_finite(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen2_vl")
    items, mask = mixed_items(policy)
    monkeypatch.setattr(
        policy.backbone.head.weight, "data", policy.backbone.head.weight * torch.nan
    )
    with pytest.raises(NonFiniteError, match=r"^row 0: the policy's log-probs are NaN or infinite"):
        self_check(policy, items, mask=mask, temperature=1.0)


def test_self_check_holds_with_dropout_and_leaves_the_modules_as_they_were() -> None:
    config = tiny_config("qwen2", lora=LoraConfig(rank=2, dropout=0.5))
    policy = load_policy(config, corpus=CORPUS)
    items, mask = mixed_items(policy)
    before = [m.training for m in policy.model.modules()]
    self_check(policy, items, mask=mask, temperature=1.0)
    assert [m.training for m in policy.model.modules()] == before


def test_the_self_check_may_run_in_parts(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny("qwen2_5_vl")
    items, mask = mixed_items(policy)
    calls: list[list[tuple[int, ...]]] = []
    real: Any = replicated_logprobs

    def count_items(policy: Policy, items: Any, **kw: Any) -> TokenLogprobs:
        calls.append([item.rows[0] for item in items])
        scores: TokenLogprobs = real(policy, items, **kw)
        return scores

    monkeypatch.setattr("vlrft.policy.logprobs.replicated_logprobs", count_items)
    monkeypatch.setattr(limits, "REPLICATED_LOGITS", 300 * 320)
    assert self_check(policy, items, mask=mask, temperature=1.0) <= TOLERANCE
    assert len(calls) > 2
    checked = [row for call in calls for row in call]
    for rows in (item.rows for item in items):
        assert {rows[0], rows[-1], max(rows, key=len), min(rows, key=len)} <= set(checked)
    assert len(checked) <= sum(min(len(item.rows), limits.CHECKED_ROWS) for item in items)


@torch.no_grad()
def test_the_order_and_number_of_items_change_nothing(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    items, mask = mixed_items(policy)
    together = packed_logprobs(policy, items, mask=mask, temperature=1.0).logprobs
    start = 0
    for item in items:
        rows = slice(start, start + len(item.rows))
        alone = packed_logprobs(policy, [item], mask=mask[rows], temperature=1.0).logprobs
        assert float((alone - together[rows]).abs().max()) <= TOLERANCE
        start += len(item.rows)
    split = [
        replace(item, rows=(row,), images=item.images[k : k + 1])
        for item in items
        for k, row in enumerate(item.rows)
    ]
    apart = packed_logprobs(policy, split, mask=mask, temperature=1.0).logprobs
    assert float((apart - together).abs().max()) <= TOLERANCE
