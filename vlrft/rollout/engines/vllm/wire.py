"""Requests and answers of vLLM's route `/inference/v1/generate`.

Prompts are our token ids. Images are our pixels in vLLM's own serialisation (msgpack, tensors as raw bytes), with the hash that
the chat gave them. A request names them, and `images` sends those that the server does not keep.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgpack
import torch
from torch import Tensor

from vlrft.memory.limits import PIXEL_CACHE_BYTES
from vlrft.policy.byte_cache import ByteCache
from vlrft.policy.families import ServedImage, ServedImages
from vlrft.rollout.engines.types import Sampling
from vlrft.rollout.engines.vllm.images import NAME
from vlrft.rollout.seeds import seed_from
from vlrft.schema import DataError, Pixels, Prompt
from vlrft.schema.errors import ServerError

BANNED = "vlrft_banned_token_ids"  # of the logits processor in packages/vlrft-vllm
SMALL_VOCABULARY = 1024  # up to which allowed tokens are listed, which needs no logits processor
RAW = 3  # msgpack's type of the bytes of a tensor
ABORTED = "abort"


@dataclass(frozen=True, kw_only=True)
class Wire:
    """The part that all requests of one policy have in common, and the bodies made with it."""

    ends: tuple[int, ...]
    banned: tuple[int, ...]
    vocab: int
    image_token: int | None
    images: ServedImages | None  # None: a policy without images
    half: torch.dtype | None
    """The policy's dtype where that is half precision: the tower rounds pixels to it anyway."""
    serialised: ByteCache[str] = field(default_factory=lambda: ByteCache[str](PIXEL_CACHE_BYTES))

    @cached_property
    def banned_set(self) -> frozenset[int]:
        return frozenset(self.banned)

    def request(
        self,
        prompt: Prompt,
        so_far: Sequence[int],
        seed: int,
        sampling: Sampling,
        model: str | None,
    ) -> dict[str, Any]:
        """The body that asks for the rest of a completion after its first tokens."""
        params: dict[str, Any] = {
            "n": 1,
            "max_tokens": sampling.max_tokens - len(so_far),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "seed": continued_seed(seed, len(so_far)),
            "logprobs": 0,
            "stop_token_ids": list(self.ends),
            "ignore_eos": True,
            "detokenize": False,
        }
        if self.vocab <= SMALL_VOCABULARY:
            allowed = [i for i in range(self.vocab) if i not in self.banned_set]
            params["allowed_token_ids"] = allowed
        elif self.banned:
            params["extra_args"] = {BANNED: list(self.banned)}
        body: dict[str, Any] = {
            "token_ids": [*prompt.ids, *so_far],
            "sampling_params": params,
            "return_token_ids": True,
        }
        if model is not None:
            body["model"] = model
        if prompt.images:
            body["features"] = self._features(prompt)
        return body

    def _features(self, prompt: Prompt) -> dict[str, Any]:
        if prompt.image_count < len(prompt.images):
            raise DataError(
                "a prompt with a video: vlrft does not send videos to vLLM's servers; use rollout.engine=hf"
            )
        places = image_places(prompt, self.image_token)
        return {
            "mm_hashes": {"image": [image.key for image in prompt.images]},
            "mm_placeholders": {"image": [{"offset": o, "length": n} for o, n in places]},
            "kwargs_data": {"image": [NAME + self.key(image) for image in prompt.images]},
        }

    def key(self, image: Pixels) -> str:
        """The key of an image as it is sent."""
        return f"{image.key}.{str(self.half or torch.float32).removeprefix('torch.')}"

    def data(self, prompt: Prompt, key: str) -> str:
        """An image of the prompt in base64, by its key."""
        return self._serialise(next(image for image in prompt.images if self.key(image) == key))

    def _serialise(self, image: Pixels) -> str:
        kept = self.serialised.get(image.key)
        if kept is None:
            assert self.images is not None
            kept = serialise(self.images.serve(image), self.half)
            self.serialised.put(image.key, kept, len(kept))
        return kept


def serialise(image: ServedImage, half: torch.dtype | None) -> str:
    """vLLM's MultiModalKwargsItem, in base64."""
    content = {
        name: {
            "data": _tensor(value if half is None else value.to(half)),
            "field": ["flat", {"keep_on_cpu": False, "slices": [[0, len(value), None]], "dim": 0}],
        }
        for name, value in image.rows.items()
    }
    for name, value in image.values.items():
        content[name] = {"data": _tensor(value), "field": ["batched", {"keep_on_cpu": True}]}
    packed = msgpack.packb(content)
    assert packed is not None
    return base64.b64encode(packed).decode("ascii")


def continued_seed(seed: int, tokens: int) -> int:
    """The seed of a completion, or of the rest of it after so many tokens."""
    return seed_from(seed, tokens) if tokens else seed


def image_places(prompt: Prompt, image_token: int | None) -> list[tuple[int, int]]:
    """Offset and length of each image's tokens in the prompt. Raises DataError where they do not fit the images."""
    places = [k for k, token in enumerate(prompt.ids) if token == image_token]
    found: list[tuple[int, int]] = []
    at = 0
    for image in prompt.images:
        own = places[at : at + image.tokens]
        at += image.tokens
        if len(own) < image.tokens or own[-1] - own[0] != image.tokens - 1:
            raise DataError(
                f"an image of {image.tokens} tokens has no such place among the {len(places)} image tokens of the prompt"
            )
        found.append((own[0], image.tokens))
    if at != len(places):
        raise DataError(
            f"the prompt has {len(places)} image tokens, but its images have {at} features"
        )
    return found


def _tensor(value: Tensor) -> list[Any]:
    """Dtype, shape and bytes."""
    flat = value.detach().cpu().contiguous()
    raw = flat.reshape(-1).view(torch.uint8).numpy().tobytes()
    return [str(flat.dtype).removeprefix("torch."), list(flat.shape), msgpack.ExtType(RAW, raw)]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a completion: all of it, unless the request was aborted."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[str, ...]  # of the weights, of each token
    aborted: bool


def read_segment(
    answer: dict[str, Any], prompt: Sequence[int], banned: Collection[int], request: str
) -> Segment:
    """The tokens of an answer. Raises ServerError where the server changed the prompt, or sampled a banned token."""
    try:
        choice = answer["choices"][0]
        ids = tuple(choice["token_ids"] or ())
        content = (choice["logprobs"] or {}).get("content") or []
        logprobs = tuple(float(entry["logprob"]) for entry in content)
        spans = choice["weight_versions"] or []
        versions = tuple(s["version"] for s in spans for _ in range(s["start"], s["end"]))
        returned = answer["prompt_token_ids"]
        aborted = choice["finish_reason"] == ABORTED
    except (KeyError, IndexError, TypeError) as e:
        raise ServerError(
            f"{request}: the server's answer has another form than vLLM's ({type(e).__name__}: {e})"
        ) from None
    if list(returned or ()) != list(prompt):
        raise ServerError(
            f"{request}: the server sampled after another prompt than it was sent: {len(returned or ())} tokens in place of "
            f"{len(prompt)}; its tokenizer or image processor must leave the prompt as it is"
        )
    if not len(ids) == len(logprobs) == len(versions):
        raise ServerError(
            f"{request}: {len(ids)} tokens, but {len(logprobs)} log-probs and {len(versions)} versions of weights"
        )
    if wrong := [token for token in ids if token in banned]:
        raise ServerError(
            f"{request}: the server sampled the token {wrong[0]}, which is banned; is vlrft-vllm installed with it?"
        )
    return Segment(ids=ids, logprobs=logprobs, versions=versions, aborted=aborted)
