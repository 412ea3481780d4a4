"""One completion: asked for until it is whole, over pauses for new weights and over servers that are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

from vlrft.policy.chat import Chat
from vlrft.rollout.engines.sampled_rows import Endings, SampledRow, make_pieces
from vlrft.rollout.engines.types import Request, Sampling
from vlrft.rollout.engines.vllm.images import ImageSender
from vlrft.rollout.engines.vllm.loop import see_error
from vlrft.rollout.engines.vllm.pool import Pool
from vlrft.rollout.engines.vllm.server import LostServer, Refused, Server, State
from vlrft.rollout.engines.vllm.transfer import Update
from vlrft.rollout.engines.vllm.wire import Segment, Wire, read_segment
from vlrft.schema import Piece
from vlrft.schema.errors import ServerError

GENERATE = "/inference/v1/generate"
NOT_BEGUN = Segment(ids=(), logprobs=(), versions=(), aborted=True)


@dataclass
class Group:
    """The completions of one request."""

    request: Request
    sampling: Sampling
    endings: Endings
    server: Server | None = None  # that has computed the prompt


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Asks servers for completions."""

    pool: Pool
    wire: Wire
    images: ImageSender
    chat: Chat
    seconds: float  # of one answer
    retries: int
    current: Callable[[], Update]  # the latest weights

    async def complete(self, group: Group, seed: int) -> Piece:
        """The piece of one seed. Raises ServerError where no server gives it."""
        work = _Work(row=SampledRow(request=0, place=0, seed=seed))
        row = work.row
        while not row.ended:
            segment = await self._ask_until_answered(group, row)
            before = len(row.ids)
            group.endings.extend([row], [segment.ids], [segment.logprobs])
            steps = map(self.current().step_of, segment.versions)
            work.steps += [step for step in steps if step is not None][: len(row.ids) - before]
            if not (row.ended or segment.aborted):
                raise ServerError(
                    f"{group.request.id}: a server ended a completion after {len(row.ids)} of {group.sampling.max_tokens} tokens "
                    "without an end token; is its context (--max-model-len, rollout.engine.context) long enough?"
                )
        del work.steps[len(row.ids) :]  # a stop string may begin in an earlier segment
        (piece,) = make_pieces([row], self.chat, group.sampling)
        return replace(piece, policy_steps=tuple(work.steps))

    async def _ask_until_answered(self, group: Group, row: SampledRow) -> Segment:
        again = AsyncRetrying(
            retry=retry_if_exception_type(LostServer),
            stop=stop_after_attempt(self.retries + 1),
            reraise=True,
        )
        return await again(self._ask_one, group, row)

    async def _ask_one(self, group: Group, row: SampledRow) -> Segment:
        server = group.server = await self.pool.take(group.server)
        epoch = server.epoch
        try:
            return await self._ask(server, group, row)
        except LostServer as e:
            if server.epoch == epoch:  # else it has been lost and may have come back since
                await self.pool.set_state(server, State.LOST, str(e))
            raise
        finally:
            await self.pool.give(server)

    async def _ask(self, server: Server, group: Group, row: SampledRow) -> Segment:
        """One answer. Raises LostServer where the server is lost meanwhile, or has older weights than were sent."""
        update, request = self.current(), group.request
        body = self.wire.request(request.prompt, row.ids, row.seed, group.sampling, update.model)
        data = partial(self.wire.data, request.prompt)
        asked = self.images.post(server, GENERATE, self.seconds, body, data)
        answer = asyncio.ensure_future(asked)
        answer.add_done_callback(see_error)
        cut = asyncio.ensure_future(server.cut.wait())
        try:
            await asyncio.wait({answer, cut}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done() and server.state is State.UPDATING:
                return NOT_BEGUN
            if not answer.done():
                raise LostServer(server.reason)
            segment = read_segment(
                answer.result(), body["token_ids"], self.wire.banned_set, request.id
            )
        except Refused:
            if update.adapter is not None and not self._is_current(update):
                return NOT_BEGUN  # the adapter was replaced before the request reached the server
            raise
        finally:
            answer.cancel()
            cut.cancel()
        others = set(segment.versions) - {update.version}
        if others and update.adapter is not None and not self._is_current(update):
            return (
                NOT_BEGUN  # the label is of the new adapter, and the request named the one before
            )
        for version in set(segment.versions):
            step = update.step_of(version)
            if step is None or step < update.step:
                raise LostServer(
                    f"{server} sampled with the weights {version!r} in place of {update.version!r}: it was started again, or "
                    "another run uses it"
                )
        return segment

    def _is_current(self, update: Update) -> bool:
        """False while the weights after `update` are sent, and from then on."""
        return self.pool.open and update is self.current()


@dataclass
class _Work:
    row: SampledRow
    steps: list[int] = field(default_factory=list[int])
