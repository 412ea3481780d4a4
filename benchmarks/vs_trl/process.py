"""The process of one side, which runs a step on request."""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Literal

import torch

from benchmarks.vs_trl.cases import Job
from benchmarks.vs_trl.meter import Meter

Side = Literal["vlrft", "trl"]


def start(side: Side, job: Job) -> Connection:
    """Start a side's process; it sends an empty result when it is ready, and a result after each turn."""
    context = get_context("spawn")
    parent, child = context.Pipe()
    context.Process(target=_serve, args=(side, job, child), daemon=True).start()
    child.close()
    return parent


def _serve(side: Side, job: Job, connection: Connection) -> None:
    torch.set_num_threads(job.threads)
    if side == "trl":  # a process imports its own side only
        from benchmarks.vs_trl.theirs import serve
    else:
        from benchmarks.vs_trl.ours import serve
    serve(job, Meter(connection, job.device))
