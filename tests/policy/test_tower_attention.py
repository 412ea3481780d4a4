"""A tower that attends to all images in one call: features, gradients, calls and device syncs against transformers' own."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.conftest import Tiny
from vlrft.policy import tower_attention
from vlrft.policy.families import _tower_arguments, vision_families
from vlrft.policy.image_features import ImageFeatures
from vlrft.policy.load import checkpoint_activations
from vlrft.policy.policy import Policy
from vlrft.policy.tower_attention import ATTENTION, attend_within, make_sequences
from vlrft.schema import Pixels
from vlrft.testing.small_policies import Family, noise_image

SIZES = ((308, 196), (140, 252), (56, 56), (168, 84), (140, 252))  # windows of 112 that are cut off
FAMILIES: tuple[Family, ...] = tuple(vision_families())


class CountCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operators by name."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.calls[function.__name__.split(".")[0]] += 1
        return function(*args, **(kwargs or {}))

    @property
    def attention(self) -> int:
        return sum(n for name, n in self.calls.items() if "scaled_dot" in name)


def pixels(policy: Policy, sizes: Sequence[tuple[int, int]] = SIZES) -> list[Pixels]:
    return list(
        policy.chat.process_images([noise_image(*size, seed=k) for k, size in enumerate(sizes)])
    )


def copied(policy: Policy, dtype: torch.dtype) -> tuple[Policy, Any]:
    """A policy of its own, and a plain copy of its model."""
    model: Any = copy.deepcopy(policy.model).to(dtype)
    model.base_model.visual.config._attn_implementation = "sdpa"
    return Policy(copy.deepcopy(model), policy.chat), model


def encode(policy: Policy, images: Sequence[Pixels]) -> ImageFeatures:
    encoder = policy.backbone.image_encoder
    assert encoder is not None
    return encoder.encode(images, policy.device)


def plain_features(model: Any, images: Sequence[Pixels]) -> Tensor:
    """By transformers alone."""
    grids = torch.tensor([image.grid for image in images])
    values = torch.cat([image.values for image in images])
    encoded = model.get_image_features(values, grids)
    layers = (encoded.pooler_output, *(getattr(encoded, "deepstack_features", None) or ()))
    return torch.cat([torch.cat(tuple(layer)) for layer in layers])


def all_features(policy: Policy, images: Sequence[Pixels]) -> Tensor:
    features = encode(policy, images)
    return torch.cat([features.embeds, *features.layers])


@pytest.mark.parametrize(
    ("dtype", "checkpointing"), [(torch.float32, False), (torch.float64, True)]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_features_and_gradients_are_those_of_an_image_after_another(
    tiny: Tiny, family: Family, dtype: torch.dtype, checkpointing: bool
) -> None:
    policy, model = copied(tiny(family), dtype)
    if checkpointing:
        checkpoint_activations(policy.model)
    images = pixels(policy)
    expected = plain_features(model, images)
    features = all_features(policy, images)
    assert policy.model.base_model.visual.config._attn_implementation == ATTENTION
    bound = 1e-6 if dtype == torch.float32 else 1e-13
    assert (features - expected).abs().max() <= bound * expected.abs().max()
    weights = torch.randn(expected.shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    torch.autograd.backward([features, expected], [weights, weights])
    ours = dict(policy.model.base_model.visual.named_parameters())
    for name, parameter in model.base_model.visual.named_parameters():
        wanted, gradient = parameter.grad, ours[name].grad
        assert wanted is not None, name
        assert gradient is not None, name
        floor = wanted.new_tensor(1e-3 if dtype == torch.float32 else 0)  # key biases have none
        assert (gradient - wanted).norm() <= 3 * bound * torch.maximum(wanted.norm(), floor), name


@pytest.mark.parametrize("family", FAMILIES)
def test_images_of_one_size_take_one_call_a_layer(tiny: Tiny, family: Family) -> None:
    """112² is one window; 224² four, none cut off."""
    policy, model = copied(tiny(family), torch.float32)
    images = pixels(policy, [(224, 224)] * 3)
    layers = model.config.vision_config.depth
    with torch.no_grad(), CountCalls() as before:
        plain_features(model, images)
    with torch.no_grad(), CountCalls() as after:
        encode(policy, images)
    assert before.attention >= 3 * layers
    assert after.attention == layers


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tower_reads_no_number_of_the_device(
    tiny: Tiny, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the tower's forward reads as numbers was computed from the grids: the meta device has no numbers."""
    policy, _ = copied(tiny(family), torch.float32)
    images = pixels(policy)
    policy.model.to("meta")
    made = encode(policy, images).embeds
    assert made.is_meta
    assert len(made) == sum(image.tokens for image in images)
    monkeypatch.setattr(_tower_arguments, "_vision_functions", lambda: None)
    with pytest.raises((NotImplementedError, RuntimeError)):  # as without these arguments
        encode(policy, images)


def test_another_release_of_transformers_computes_everything_itself(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, model = copied(tiny("qwen2_5_vl"), torch.float32)
    images = pixels(policy)
    monkeypatch.setattr(_tower_arguments, "FUNCTIONS", ("get_vision_positions_of_2027",))
    _tower_arguments._vision_functions.cache_clear()
    try:
        features = all_features(policy, images)
    finally:
        monkeypatch.undo()
        _tower_arguments._vision_functions.cache_clear()
    assert policy.model.base_model.visual.config._attn_implementation == "sdpa"
    assert torch.equal(features, plain_features(model, images))


def test_another_attention_is_left_alone(tiny: Tiny) -> None:
    policy, model = copied(tiny("qwen2_vl"), torch.float32)
    policy.model.base_model.visual.config._attn_implementation = "eager"
    images = pixels(policy)
    features = all_features(policy, images)
    assert policy.model.base_model.visual.config._attn_implementation == "eager"
    torch.testing.assert_close(features, plain_features(model, images), rtol=0, atol=1e-6)


def test_transformers_own_forward_runs_an_image_after_another(tiny: Tiny) -> None:
    """The self-check's reference does not share the new path."""
    policy, model = copied(tiny("qwen2_5_vl"), torch.float32)
    images = pixels(policy)
    encode(policy, images)
    with CountCalls() as count:
        features = plain_features(policy.model, images)
    assert count.attention > 10 * model.config.vision_config.depth
    assert torch.equal(features, plain_features(model, images))


def test_sequences_are_put_in_order_of_their_lengths() -> None:
    sequences = make_sequences(torch.tensor([0, 3, 4, 7, 9, 10]), "cpu")
    assert sequences.longest == 3
    assert sequences.batches == ((2, 1), (1, 2), (2, 3))
    assert sequences.order is not None
    assert sequences.inverse is not None
    assert sequences.order.tolist() == [3, 9, 7, 8, 0, 1, 2, 4, 5, 6]
    assert (
        sequences.inverse[sequences.order].tolist()
        == sequences.order[sequences.inverse].tolist()
        == list(range(10))
    )
    even = make_sequences(torch.tensor([0, 2, 4, 7]), "cpu")
    assert (even.batches, even.order, even.inverse) == (((2, 2), (1, 3)), None, None)


def test_attention_stays_within_a_sequence() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 7, 2, 4, dtype=torch.float64)
    sequences = make_sequences(torch.tensor([0, 4, 5, 7]), "cpu")
    output = attend_within(query, key, value, sequences, 0.5)
    for rows in (slice(0, 4), slice(4, 5), slice(5, 7)):
        scores = torch.einsum("qhd,khd->hqk", query[rows], key[rows]) * 0.5
        expected = torch.einsum("hqk,khd->qhd", scores.softmax(-1), value[rows])
        torch.testing.assert_close(output[rows], expected, rtol=0, atol=1e-14)


def test_a_gpu_takes_all_sequences_in_one_call_of_the_flash_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shapes, dtypes and arguments only: tensors on the meta device have no numbers."""
    assert not tower_attention._takes_flash(torch.empty(7, 2, 80, dtype=torch.bfloat16))
    monkeypatch.setattr(tower_attention, "_takes_flash", lambda query: True)
    sequences = make_sequences(torch.tensor([0, 4, 5, 7]), "meta")
    size = {"device": "meta", "dtype": torch.bfloat16, "requires_grad": True}
    query, key, value = (torch.empty((7, 2, 80), **size) for _ in range(3))  # type: ignore[call-overload]
    with CountCalls() as count:
        output = attend_within(query, key, value, sequences, 0.5)
        gradients = torch.autograd.grad(output, (query, key, value), torch.empty_like(output))
    assert (count.calls["_flash_attention_forward"], count.attention) == (1, 0)
    assert count.calls["_flash_attention_backward"] == 1
    for made in (output, *gradients):
        assert (made.shape, made.dtype) == ((7, 2, 80), torch.bfloat16)
