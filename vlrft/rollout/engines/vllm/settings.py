"""The settings of the engine `vllm`: which servers, how weights go over, what is checked, and time limits."""

from __future__ import annotations

from typing import Literal

from vlrft.config import strict
from vlrft.schema.changed_settings import changed_settings
from vlrft.schema.ranges import Natural, Positive, PositiveFloat, Seconds

# settings of servers that vlrft starts
OF_STARTED = ("python", "command", "arguments", "devices", "servers", "max_images", "max_restarts")


@strict
class Settings:
    """The keys of a config under `rollout.engine`, next to the name."""

    urls: tuple[str, ...] = ()
    """Addresses of servers that run already, such as `http://node7:8000`. None: vlrft starts its own and ends them with the run."""
    servers: Positive = 1
    """How many servers vlrft starts."""
    python: str | None = None
    """The Python of the environment with vLLM and vlrft-vllm, which `make vllm` makes; null: vlrft's own."""
    command: tuple[str, ...] = ()
    """The command that starts a server, in place of `python -m vllm.entrypoints.cli.main`: such as `[docker, run, …]`."""
    arguments: tuple[str, ...] = ()
    """Further arguments of `vllm serve`; they come last."""
    devices: tuple[str, ...] = ()
    """The GPUs of each server that vlrft starts, as in CUDA_VISIBLE_DEVICES: `["4", "5"]`, or `["4,5", "6,7"]` for two servers whose
    tensors are split over two GPUs. None: as vLLM chooses."""
    context: Positive | None = None
    """The most tokens of a prompt with its completion on the servers; null: as many as the run needs."""
    max_images: Positive = 16
    """The most images in a prompt, of servers that vlrft starts."""
    sleep: bool = False
    """The servers free their GPU memory while the policy is trained, for servers on the trainer's own GPUs."""
    transfer: Literal["file", "broadcast", "ipc"] = "file"
    """How weights go to the servers: as a file in memory or on a shared disk, or `broadcast` by the first rank over the network, with
    NCCL between GPUs, else with gloo. `ipc` is not there yet."""
    folder: str | None = None
    """Where the file with the weights is written, with `transfer: file`; all servers must see it under this path. null: in
    /dev/shm, for servers of the same user on this machine."""
    lora: Literal["merged", "adapter"] = "merged"
    """For a policy with LoRA: `merged` sends all weights with the adapters merged in, `adapter` sends the adapters alone."""
    check_every: Positive = 20
    """The sampler's log-probs are compared with the trainer's after the first update, and after every so many."""
    max_gap: PositiveFloat | None = None
    """The largest mean difference of these log-probs with which the run goes on, in nats; null: 1e-4 in float32, and what rounding
    explains in half precision."""
    max_requests: Positive = 256
    """The most completions that a server samples at once for one rank."""
    start_seconds: Seconds = 900.0
    """Time in which a server must be ready after its start."""
    request_seconds: Seconds = 900.0
    """Time in which a completion must be there; a server without an answer counts as lost."""
    update_seconds: Seconds = 600.0
    """Time in which a server must have loaded weights."""
    retries: Natural = 3
    """How often a completion, an update or a start of a server is tried again before the run stops."""
    max_restarts: Natural = 20
    """How often, in a run, a server that vlrft starts is started again after it was lost; after that it is given up."""

    def __post_init__(self) -> None:
        if self.urls:
            changed = changed_settings(self)
            if chosen := [name for name in OF_STARTED if name in changed]:
                raise ValueError(
                    f"urls: these servers run already, so {', '.join(chosen)} cannot be chosen; leave out one or the other"
                )
            if wrong := [url for url in self.urls if not url.startswith(("http://", "https://"))]:
                raise ValueError(f"urls: {wrong[0]!r} is no address such as http://node7:8000")
            if len(set(self.urls)) < len(self.urls):
                raise ValueError("urls: an address is given twice")
        if self.command and self.python is not None:
            raise ValueError(
                "command: starts the servers by itself, so python has no effect; leave out one or the other"
            )
        if self.devices and len(self.devices) != self.servers:
            raise ValueError(
                f"devices: {len(self.devices)} for {self.servers} servers; give one for each"
            )
