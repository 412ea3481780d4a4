"""The completions that are being sampled: their caches and last tokens, and one step that decodes a token of each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.distributed.phases import phase
from vlrft.policy.backbone import Backbone
from vlrft.rollout.engines.completion_cache import CompletionCache
from vlrft.rollout.engines.cuda_graph import GraphedStep
from vlrft.rollout.engines.prefill import Prefilled
from vlrft.rollout.engines.prompt_cache import PromptCache, row_index
from vlrft.rollout.engines.shared_prefix import Keys, SharedPrompts, decode

KeyPair = tuple[Float[Tensor, "*S W D"], Float[Tensor, "*S W D"]]  # keys and values


class DecodingRows:
    """Rows of one prompt are next to each other. Axes: N rows, B prompts, A rotary axes, V vocabulary."""

    def __init__(
        self,
        backbone: Backbone,
        prefilled: Prefilled,
        counts: Sequence[int],
        room: int,
        *,
        graphed: bool = False,
    ) -> None:
        """A row for each completion of each prompt. `counts` [B]: completions of each, at least one; `room`: tokens of the
        longest; `graphed`: steps run as a CUDA graph, recorded again when rows leave or enter."""
        self.graphed = graphed
        self.backbone = backbone
        self.room = room
        self.counts = list(counts)
        self.ages = [0] * sum(counts)  # tokens of each row that are in the cache
        self.prompts: PromptCache = prefilled.prompts
        at = row_index(counts, prefilled.next.device)
        self.next: Int[Tensor, "A N"] = prefilled.next[:, at]  # position of the first token
        self.completions = CompletionCache(self.prompts.layers, len(self.ages), room)
        self.completions.states = self.prompts.fork_states(at)
        self._prepare()

    def __len__(self) -> int:
        return len(self.ages)

    def prompt_lengths(self, index: Sequence[int]) -> list[int]:
        """Tokens of the prompts that the rows at `index` have, each once."""
        return [self.prompts.lengths[b] for b, rows in enumerate(self._rows_left(index)) if rows]

    def prompt_of_rows(self) -> list[int]:
        """The prompt of each row."""
        return [b for b, count in enumerate(self.counts) for _ in range(count)]

    @phase("decode")
    def copy_keys(
        self, prompts: Sequence[int], rows: Sequence[tuple[int, int]], *, drop: bool = False
    ) -> dict[int, KeyPair]:
        """By layer that attends: keys and values of the prompts at these indices and then of rows (index, first tokens), one
        token after another. `drop`: the cache is not used again; a layer's tensors are dropped once they are copied."""
        device, width = self.next.device, self.prompts.first.shape[1]
        starts = [(b * width, self.prompts.lengths[b]) for b in prompts]
        at = _join_ranges(starts).to(device)
        own = _join_ranges([(row * self.room, count) for row, count in rows]).to(device)
        copies: dict[int, KeyPair] = {}
        for layer in list(self.prompts.keys):
            parts = [self.prompts.read(layer, at)]
            if len(own):
                parts.append(self.completions.read(layer, own))
            keys, values = zip(*parts, strict=True)
            copies[layer] = torch.cat(keys), torch.cat(values)
            if drop:
                self.prompts.drop(layer)
                self.completions.drop(layer)
        return copies

    @phase("decode")
    def keep(self, index: Sequence[int]) -> None:
        """Keeps only the rows at `index`, ascending; prompts without rows are dropped."""
        self._select(index, more=0)
        self._prepare()

    @phase("decode")
    def replace(self, index: Sequence[int], prefilled: Prefilled, counts: Sequence[int]) -> None:
        """Keeps only the rows at `index`, ascending and not empty, and adds rows of other prompts after them."""
        more = sum(counts)
        self._select(index, more)
        at = row_index(counts, self.next.device)
        self.completions.append_states(prefilled.prompts.fork_states(at))
        self.prompts.append(prefilled.prompts)
        self.next = torch.cat([self.next, prefilled.next[:, at]], 1)
        self.counts += counts
        self.ages += [0] * more
        self._prepare()

    def _select(self, index: Sequence[int], more: int) -> None:
        used = max(self.ages[k] for k in index)
        at = torch.tensor(index, device=self.next.device)
        self.completions.select(at, more, used)
        self.next = self.next[:, at]
        self.ages = [self.ages[k] for k in index]
        counts = self._rows_left(index)
        self.prompts.select([b for b, count in enumerate(counts) if count])
        self.counts = [count for count in counts if count]

    def _rows_left(self, index: Sequence[int]) -> list[int]:
        """The rows at `index` of each prompt."""
        ends = torch.tensor(self.counts).cumsum(0)
        prompt = torch.bucketize(torch.tensor(index), ends, right=True)
        left: list[int] = prompt.bincount(minlength=len(self.counts)).tolist()
        return left

    def _prepare(self) -> None:
        self._shared = SharedPrompts.of(self.prompts, self.counts)
        self._graphed = GraphedStep() if self.graphed else None
        # `ages` on the device, where they differ or a graph reads them
        self._age: Int[Tensor, " N"] | None = None
        if self.graphed or len(set(self.ages)) > 1:
            self._age = torch.tensor(self.ages, device=self.next.device)

    def step(self, tokens: Int[Tensor, " N"]) -> Float[Tensor, "N V"]:
        """Adds each row's next token to its cache; returns the logits of the token after it. A row whose room is full
        replaces its last token: its completion has ended, and nothing that it does is read."""
        if self._graphed is not None:
            logits = self._graphed(self.static_step, tokens)
        elif self._age is None:
            logits = self._decode(tokens, self.ages[0], used=None)
        else:
            logits = self._decode(tokens, self._age, used=max(self.ages) + 1)
            self._age.add_(1).clamp_(max=self.room - 1)
        self.ages = [min(age + 1, self.room - 1) for age in self.ages]
        return logits

    def static_step(self, tokens: Int[Tensor, " N"]) -> Float[Tensor, "N V"]:
        """As `step`, for a CUDA graph: it reads nothing on the host, and the same memory at each call."""
        assert self._age is not None
        logits = self._decode(tokens, self._age, used=self.room)
        self._age.add_(1).clamp_(max=self.room - 1)
        return logits

    def _decode(
        self, tokens: Int[Tensor, " N"], at: int | Int[Tensor, " N"], used: int | None
    ) -> Float[Tensor, "N V"]:
        with phase("decode"):
            embeds = self.backbone.decoder.get_input_embeddings()(tokens[:, None])
            positions = (self.next + at)[..., None]
            self.completions.at = at
            keys = Keys.of(self._shared, self.completions, used)
            states = decode(self.backbone, embeds, positions, self.completions, keys)
        return compute_logits(self.backbone, states[:, 0])


@phase("head")
def compute_logits(backbone: Backbone, states: Float[Tensor, "N H"]) -> Float[Tensor, "N V"]:
    logits: Tensor = backbone.head(states)
    return logits


def _join_ranges(ranges: Sequence[tuple[int, int]]) -> Int[Tensor, " M"]:
    """The numbers of ranges (start, count), one range after another."""
    parts = [torch.arange(start, start + count) for start, count in ranges]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.long)
