"""The decoding step that a CUDA graph records, on a CPU: equal to the plain one, and always in the same memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch import Tensor

from tests.conftest import Tiny
from vlrft.distributed.phases import PhaseTimer, phase
from vlrft.rollout.engines import Request
from vlrft.rollout.engines.cuda_graph import GraphedStep, can_graph
from vlrft.rollout.engines.decoding_rows import DecodingRows
from vlrft.rollout.engines.prefill import prefill
from vlrft.testing.operator_meter import count_operators
from vlrft.testing.small_policies import ask

COUNTS = (2, 1)


def test_the_static_step_is_the_plain_one_in_fixed_memory(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    requests = [
        Request(id=text, prompt=policy.chat.render(ask(text)), seeds=(0,)) for text in ("one?", "?")
    ]
    plain, static = (
        DecodingRows(
            policy.backbone,
            prefill(policy.backbone, requests, pad_id=policy.chat.pad_id),
            COUNTS,
            room=5,
            graphed=graphed,
        )
        for graphed in (False, True)
    )
    generator = torch.Generator().manual_seed(0)
    tokens = torch.zeros(3, dtype=torch.long)
    places = set()
    with torch.no_grad():
        for _ in range(5):
            tokens.copy_(torch.randint(0, 200, (3,), generator=generator))
            expected = plain.step(tokens)
            with count_operators() as counts:
                logits = static.static_step(tokens)
            torch.testing.assert_close(logits, expected)
            assert not counts.syncs
            pair, age = static.completions._tensors[0], static._age
            assert pair is not None
            assert age is not None
            places.add((pair[0].data_ptr(), pair[1].data_ptr(), age.data_ptr()))
    assert len(places) == 1
    assert not can_graph(plain.prompts.first)


def test_a_step_that_cannot_be_recorded_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nsecond line")

    def step(tokens: Tensor) -> Tensor:
        seen.append(int(tokens))
        return tokens[:, None] * 2.0

    monkeypatch.setattr(torch.cuda, "CUDAGraph", refuse)
    seen: list[int] = []
    graphed = GraphedStep()
    with pytest.warns(RuntimeWarning, match="cannot be recorded.*is capturing$") as warned:
        logits = [float(graphed(step, torch.tensor([k]))) for k in range(4)]
    assert logits == [0, 2, 4, 6]
    assert seen == [0, 1, 2, 3]
    assert len(warned) == 1


class Record:
    """A CUDA graph of a CPU: it has what was recorded, and counts its replays."""

    replays = 0

    def replay(self) -> None:
        self.replays += 1


def test_phases_of_a_recorded_step_do_not_wait_for_the_device_and_its_replay_is_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording: list[Record | None] = []

    @contextmanager
    def record(graph: Record, capture_error_mode: str) -> Iterator[None]:
        recording.append(graph)
        yield
        recording.append(None)

    def wait() -> None:
        if recording and recording[-1] is not None:
            raise RuntimeError("operation not permitted when stream is capturing")

    def step(tokens: Tensor) -> Tensor:
        with phase("decode"):
            return tokens[:, None] * 2.0

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Record)
    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    ticks = iter(range(100))
    timer = PhaseTimer(clock=lambda: next(ticks), synchronize=wait)
    graphed = GraphedStep()
    with timer.running():
        for k in range(4):
            graphed(step, torch.tensor([k]))
    (graph, _) = recording
    assert graph is not None
    assert graph.replays == 3
    assert timer.seconds["decode"] == 4  # one tick for the first call, and one for each replay


def test_the_caches_of_a_graphed_step_are_freed_without_the_garbage_collector(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    request = Request(id="one", prompt=policy.chat.render(ask("one?")), seeds=(0,))
    gc.disable()
    try:
        with torch.no_grad():
            rows = DecodingRows(
                policy.backbone,
                prefill(policy.backbone, [request], pad_id=policy.chat.pad_id),
                (1,),
                room=3,
                graphed=True,
            )
            rows.step(torch.zeros(1, dtype=torch.long))
        cache = weakref.ref(rows.prompts.first)
        del rows
        assert cache() is None
    finally:
        gc.enable()
