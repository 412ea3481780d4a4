"""The loop over tokens: waiting completions are prefilled, all in the cache decode a few tokens, those that have ended leave.

All random numbers of a row are drawn from its own seed when it enters, so that its tokens do not depend on when that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vlrft.memory.admission import CacheUse
from vlrft.memory.limits import KEEP_SHARE
from vlrft.policy.policy import Policy
from vlrft.policy.rank_sync import RunFiller, Unsynchronised
from vlrft.rollout.engines.cuda_graph import can_graph
from vlrft.rollout.engines.decoding_rows import DecodingRows
from vlrft.rollout.engines.kept_contexts import KeptContexts
from vlrft.rollout.engines.prefill import Prefilled
from vlrft.rollout.engines.prompt_cache import row_index
from vlrft.rollout.engines.prompt_runs import PromptRuns
from vlrft.rollout.engines.sampled_rows import Endings, SampledRow, make_pieces
from vlrft.rollout.engines.sampling import draw_uniforms, sample_tokens
from vlrft.rollout.engines.stop_strings import stop_strings
from vlrft.rollout.engines.token_signals import token_signals
from vlrft.rollout.engines.types import Request, Sampling
from vlrft.rollout.engines.waiting import Admitted, WaitingRequests
from vlrft.schema import Piece

# Tokens that are decoded between two looks at which rows have ended. A look waits for the device, which idles until the
# next token is launched; a row that ends between two looks decodes up to so many tokens less one in vain.
LOOK_EVERY = 8


class Decoding:
    """The work of one `generate`. Axes: N rows, T tokens between two looks, V vocabulary, C numbers of a token."""

    def __init__(
        self,
        policy: Policy,
        requests: Sequence[Request],
        sampling: Sampling,
        fill: RunFiller,
        past: KeptContexts,
    ) -> None:
        """`fill`: see `RankSync.run`. `past`: contexts of the `generate` before; they are cleared."""
        self.policy = policy
        self.sampling = sampling
        self.waiting = WaitingRequests(requests, sampling)
        self._prompts = PromptRuns(policy, requests, past, self.waiting.limits, fill)
        self._fill = fill
        vocab = len(policy.banned)
        stops = stop_strings(sampling.stop, policy.chat, vocab) if sampling.stop else None
        self._endings = Endings(
            end_ids=frozenset(policy.chat.end_ids), max_tokens=sampling.max_tokens, stops=stops
        )
        self._pieces: list[list[Piece | None]] = [[None] * len(r.seeds) for r in requests]
        self._rows: list[SampledRow] = []  # as in the cache, ended or not
        self._cache: DecodingRows | None = None  # None: no rows
        self._tokens = torch.empty(0, dtype=torch.long)  # [N] the last of each row
        self._uniforms = torch.empty(0, 0, dtype=torch.float64)  # [N, max_tokens]

    @property
    def kept(self) -> KeptContexts:
        """Contexts of requests that grow, for the next `generate`."""
        return self._prompts.kept

    def run(self) -> list[tuple[Piece, ...]]:
        """A piece for each seed, for each request in order."""
        while self.waiting or any(not row.ended for row in self._rows):
            self._refill()
            left = [self.sampling.max_tokens - len(r.ids) for r in self._rows if not r.ended]
            if self._cache is not None and left:
                self._look(*self._decode(self._cache, min(LOOK_EVERY, max(left))))
        self._keep([])
        return [tuple(piece for piece in pieces if piece is not None) for pieces in self._pieces]

    def _refill(self) -> None:
        """Rows that have ended leave the cache, and waiting ones enter, where either is worth a copy of it."""
        kept = [k for k, row in enumerate(self._rows) if not row.ended]
        use = self._use(kept)
        room = self.waiting.count_admissible(use) if self.waiting else 0
        enough = (1 - KEEP_SHARE) * len(self._rows)
        if kept and len(self._rows) - len(kept) <= enough and room <= enough:
            return
        admitted = self.waiting.admit(use) if room else []
        if not admitted:
            self._keep(kept)
            return
        if not kept:
            self._keep([])
        else:
            self._keep_contexts(kept)
        lengths = [len(part.request.prompt.ids) for part in admitted]
        use = CacheUse(
            prompts=use.prompts + len(lengths),
            longest=max(use.longest, *lengths),
            rows=use.rows + sum(len(part.request.seeds) for part in admitted),
        )
        self._enter(kept, *self._prompts.run(admitted, use, last=not self.waiting))

    def _use(self, kept: Sequence[int]) -> CacheUse:
        if self._cache is None or not kept:
            return CacheUse()
        lengths = self._cache.prompt_lengths(kept)
        return CacheUse(prompts=len(lengths), longest=max(lengths), rows=len(kept))

    def _keep_contexts(self, kept: Sequence[int]) -> None:
        """Those of the rows that leave, all but the ones at `kept`."""
        if self._cache is not None:
            places = range(len(self._rows))
            leaving = sorted(set(places).difference(kept))
            self._prompts.keep(self._rows, leaving, self._cache, self._use(places if kept else []))

    def _keep(self, kept: Sequence[int]) -> None:
        """Only the rows at `kept` stay."""
        self._keep_contexts(kept)
        self._rows = [self._rows[k] for k in kept]
        if not kept:
            self._cache = None
        elif self._cache is not None:
            self._cache.keep(kept)
            index = torch.tensor(kept)
            self._uniforms = self._uniforms[index]
            self._tokens = self._tokens[index.to(self._tokens.device)]

    def _enter(
        self,
        kept: Sequence[int],
        admitted: Sequence[Admitted],
        prefilled: Prefilled,
        logits: Float[Tensor, "B V"],
    ) -> None:
        """The rows at `kept` stay, and a row for each seed enters with its first token."""
        rows = [
            SampledRow(
                request=part.index,
                place=part.first + k,
                seed=seed,
                signals=[[] for _ in self.sampling.signals],
            )
            for part in admitted
            for k, seed in enumerate(part.request.seeds)
        ]
        counts = [len(part.request.seeds) for part in admitted]
        steps = self.sampling.max_tokens if self.sampling.temperature else 1
        uniforms = draw_uniforms([row.seed for row in rows], steps)
        first = uniforms[:, 0].to(logits.device)
        tokens, numbers = self._sample(logits[row_index(counts, logits.device)], first)
        if not kept or self._cache is None:
            room = self.sampling.max_tokens
            # Weights that ranks gather for each call are not in one place.
            alone = isinstance(self.policy.rank_sync, Unsynchronised)
            graphed = alone and can_graph(prefilled.prompts.first)
            self._cache = DecodingRows(
                self.policy.backbone, prefilled, counts, room, graphed=graphed
            )
            self._rows, self._uniforms, self._tokens = [], uniforms, tokens
        else:
            self._cache.replace(kept, prefilled, counts)
            index = torch.tensor(kept)
            self._rows = [self._rows[k] for k in kept]
            self._uniforms = torch.cat([self._uniforms[index], uniforms])
            self._tokens = torch.cat([self._tokens[index.to(tokens.device)], tokens])
        old = len(self._rows)
        self._rows += rows
        self._look(tokens[:, None], numbers[:, None], start=old)

    def _decode(
        self, cache: DecodingRows, count: int
    ) -> tuple[Int[Tensor, "N T"], Float[Tensor, "N T C"]]:
        """`count` more tokens of each row, with their numbers. Nothing is read from the device."""
        uniforms = self._next_uniforms(count).to(self._tokens.device)
        tokens: list[Tensor] = []
        numbers: list[Tensor] = []
        for t in range(count):
            logits = self.policy.rank_sync.run(
                partial(cache.step, self._tokens), with_images=False, run_filler=self._fill
            )
            self._tokens, columns = self._sample(logits, uniforms[:, t])
            tokens.append(self._tokens)
            numbers.append(columns)
        return torch.stack(tokens, 1), torch.stack(numbers, 1)

    def _next_uniforms(self, count: int) -> Float[Tensor, "N T"]:
        if not self.sampling.temperature:
            return torch.zeros(len(self._rows), count, dtype=torch.float64)
        ages = torch.tensor([len(row.ids) for row in self._rows])[:, None]
        at = (ages + torch.arange(count)).clamp_(max=self._uniforms.shape[1] - 1)
        return self._uniforms.gather(1, at)

    def _sample(
        self, logits: Float[Tensor, "N V"], uniforms: Float[Tensor, " N"]
    ) -> tuple[Int[Tensor, " N"], Float[Tensor, "N C"]]:
        """A token of each row, and its numbers: the log-prob, then the signals that are asked for."""
        sampling, banned = self.sampling, self.policy.banned
        tokens, logprobs = sample_tokens(
            logits,
            uniforms,
            banned,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
        )
        if not sampling.signals:
            return tokens, logprobs[:, None]
        signals = token_signals(logits, banned, sampling.signals, sampling.temperature)
        return tokens, torch.cat([logprobs[:, None], signals], 1)

    def _look(
        self, tokens: Int[Tensor, "N T"], numbers: Float[Tensor, "N T C"], start: int = 0
    ) -> None:
        """Reads new tokens of the rows from `start` on, in one copy from the device, and ends rows with them."""
        copied = torch.cat([tokens.double()[:, :, None], numbers.double()], 2).permute(2, 0, 1)
        ids, logprobs, *signals = copied.tolist()
        pairs = enumerate(self._rows[start:])
        going = [(k, row) for k, row in pairs if not row.ended]
        for k, row in going:
            for values, column in zip(row.signals, signals, strict=True):
                values += column[k]
        self._endings.extend(
            [row for _, row in going], [ids[k] for k, _ in going], [logprobs[k] for k, _ in going]
        )
        ended = [row for _, row in going if row.ended]
        pieces = make_pieces(ended, self.policy.chat, self.sampling)
        for row, piece in zip(ended, pieces, strict=True):
            self._pieces[row.request][row.place] = piece
