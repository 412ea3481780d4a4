"""The command that starts a server, its environment, and the model's folder that it is given."""

from __future__ import annotations

import copy
import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from vlrft.policy.merging import PlainWeights
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.workers.server_process import ServerProcess

LOG = "server_{}.log"  # in the run's folder: see vlrft/reporting/run_folder/names.py
NAME = "policy"  # of the model on the servers
OF_THE_TRAINER = (  # variables that describe the trainer's ranks and Python, not the server's
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "ROLE_RANK",
    "ROLE_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "OMP_NUM_THREADS", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV",
)  # fmt: skip
ON_CPU = (
    "--enforce-eager",
    "--block-size=32",  # attention on a CPU reads multiples of 32
    "--no-enable-chunked-prefill",  # with seeds it fails on a CPU
)
# tokens in a step on a CPU: at least the context, as prompts are not prefilled in parts there
PREFILL_ON_CPU = 16384
IMAGE_STORE = "--middleware=vlrft_vllm.image_store.ImageStore"  # pixels are sent once
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # for which vLLM reserves adapters


@dataclass(frozen=True, kw_only=True)
class ServerCommand:
    """One of the servers that are started here."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: Path

    def start(self) -> ServerProcess:
        return ServerProcess(self.arguments, log=self.log, environment=self.environment)


def server_command(
    settings: Settings, policy: Policy, model: Path, index: int, port: int, log: Path, context: int
) -> ServerCommand:
    """The command of the server `index`. Its weights are random until the first update. `context`: the most tokens of a prompt
    with its completion."""
    allowed = PlainWeights(policy.model).base.config.get_text_config().max_position_embeddings
    context = settings.context or min(context, allowed)
    start = settings.command or (
        settings.python or sys.executable,
        "-m",
        "vllm.entrypoints.cli.main",
    )
    dtype = str(policy.dtype).removeprefix("torch.")
    arguments = [
        "serve", str(model), f"--served-model-name={NAME}", "--host=127.0.0.1", f"--port={port}", f"--dtype={dtype}",
        "--load-format=dummy", "--seed=0", "--logprobs-mode=processed_logprobs", "--generation-config=vllm", "--disable-uvicorn-access-log",
        f"--max-model-len={context}", "--enable-scale-out", '--weight-transfer-config={"backend":"vlrft"}',
    ]  # fmt: skip
    if policy.chat.vision is not None:
        limits = json.dumps({"image": settings.max_images, "video": 0})
        arguments += [f"--limit-mm-per-prompt={limits}", "--no-mm-device-do-normalize", IMAGE_STORE]
    if settings.lora == "adapter":
        rank = max(config.r for config in policy.model.peft_config.values())
        arguments += [
            "--enable-lora",
            f"--max-lora-rank={next((r for r in LORA_RANKS if r >= rank), rank)}",
        ]
    if settings.sleep:
        arguments.append("--enable-sleep-mode")
    if not torch.cuda.is_available():
        arguments += [*ON_CPU, f"--max-num-batched-tokens={max(context, PREFILL_ON_CPU)}"]
    environment = {k: v for k, v in os.environ.items() if k not in OF_THE_TRAINER}
    if settings.command:
        environment |= {k: os.environ[k] for k in ("PYTHONPATH",) if k in os.environ}
    environment |= {
        "VLLM_SERVER_DEV_MODE": "1",  # the routes for weights
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if not torch.cuda.is_available():  # shared with the trainer: threads that wait for a core spin
        threads = max((os.cpu_count() or 1) // (settings.servers + 1), 1)
        environment["OMP_NUM_THREADS"] = str(threads)
    environment.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    environment.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    if settings.devices:
        devices = settings.devices[index]
        environment["CUDA_VISIBLE_DEVICES"] = devices
        arguments.append(f"--tensor-parallel-size={len(devices.split(','))}")
    return ServerCommand(
        arguments=(*start, *arguments, *settings.arguments), environment=environment, log=log
    )


def write_model(policy: Policy, folder: Path) -> None:
    """The folder of a model without its weights: config, tokenizer and processor."""
    model = PlainWeights(policy.model).base
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    policy.chat.save(folder)


def hold_port() -> socket.socket:
    """A port of this machine that nobody else is given while the socket is open. A server may listen at it, which sets SO_REUSEADDR, as
    this socket does that never listens."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
