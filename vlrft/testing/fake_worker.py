"""The worker of a fake vLLM that is sent weights by broadcast. torch is imported when it joins: the fake itself starts without."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any


class FakeWorker:
    """Rank 1 of a group of two; the trainer is rank 0."""

    def __init__(self, meeting: Mapping[str, Any]) -> None:
        """`meeting`: the `init_info` of a request. Raises RuntimeError where the trainer is not met."""
        from torch.distributed import ProcessGroupGloo, TCPStore  # type: ignore[attr-defined]

        limit = timedelta(seconds=meeting["join_seconds"])
        store = TCPStore(meeting["address"], meeting["port"], None, False, limit)
        self.group: Any = ProcessGroupGloo(store, 1, meeting["size"], limit)
        self.group.set_timeout(timedelta(seconds=meeting["seconds"]))
        self.store = store

    def receive(self, update: Mapping[str, Any], goes_on: Callable[[int], bool]) -> str:
        """A digest of the tensors that the trainer sends. Leaves the group before the first tensor for whose number `goes_on` is
        false, and raises RuntimeError."""
        import torch

        digest = hashlib.sha256()
        described = zip(update["names"], update["dtypes"], update["shapes"], strict=True)
        for k, (name, dtype, shape) in enumerate(described):
            if not goes_on(k):
                self.leave()
                raise RuntimeError(f"the worker left before {name}")
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            self.store.add("vlrft/asked/1", 1)
            self.group.broadcast(tensor, 0).wait()
            digest.update(name.encode())
            digest.update(tensor.view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    def leave(self) -> None:
        """Ends the group, as the real worker does."""
        with suppress(RuntimeError):
            self.store.add("vlrft/left", 1)
        self.group.abort()
        del self.group, self.store
