"""The engine `vllm` as a config names it: its settings, what it refuses, and how it is built."""

from __future__ import annotations

from socket import gethostname
from typing import ClassVar
from urllib.parse import urlsplit

from vlrft.config import RolloutConfig, strict
from vlrft.policy.policy import Policy
from vlrft.rollout.engines.types import EnginePlace, RolloutEngine
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.rollout.engines.vllm.version import ask_version, require_installation
from vlrft.schema.errors import ConfigError

HERE = ("localhost", "127.0.0.1", "::1", gethostname())


@strict
class Vllm(Settings):
    """Samples with servers of vLLM: its own, which live as long as the run, or those at given addresses."""

    streams: ClassVar[bool] = True
    takes_videos: ClassVar[bool] = False

    def check(self, config: RolloutConfig) -> None:
        """See `RolloutEngineKind.check`."""
        self._check_transfer()
        far = [url for url in self.urls if urlsplit(url).hostname not in HERE]
        if far and self.folder is None and self.transfer == "file":
            raise ConfigError(
                [
                    f"rollout.engine.folder: {far[0]} is on another machine, which does not see this one's memory; give a folder "
                    "on a disk that both see, or use transfer=broadcast"
                ]
            )
        if self.sleep and config.ahead:
            raise ConfigError(
                [
                    f"rollout.engine.sleep: the servers would sleep while steps are sampled ahead (rollout.ahead: {config.ahead}); use "
                    "rollout.ahead=0, or leave sleep out and give the servers GPUs of their own"
                ]
            )
        needed = config.max_prompt_tokens + config.max_tokens
        if self.context is not None and self.context < needed:
            raise ConfigError(
                [
                    f"rollout.engine.context: {self.context} tokens, but rollout.max_prompt_tokens + rollout.max_tokens is "
                    f"{needed}; raise the one or lower the others"
                ]
            )
        if not self.urls and config.max_images is not None and config.max_images > self.max_images:
            raise ConfigError(
                [
                    f"rollout.engine.max_images: the servers are started for {self.max_images} images in a prompt, but "
                    f"rollout.max_images is {config.max_images}; make them equal"
                ]
            )
        if not self.urls and not self.command:
            require_installation(self.python)

    def _check_transfer(self) -> None:
        if self.transfer == "ipc":
            raise ConfigError(
                [
                    "rollout.engine.transfer: ipc is not there yet: memory is shared between processes on one GPU alone, and that has "
                    "not been tried; use file there, and file or broadcast elsewhere"
                ]
            )
        if self.transfer != "broadcast":
            return
        refused = {
            "folder": (self.folder is not None, "a broadcast writes no file; leave it out"),
            "lora": (self.lora == "adapter", "adapters go as files; use merged"),
            "sleep": (self.sleep, "servers on the trainer's own GPU get no broadcast from it"),
        }
        for key, (is_set, why) in refused.items():
            if is_set:
                raise ConfigError([f"rollout.engine.{key}: {why}, or use transfer=file"])

    def probe(self) -> list[str]:
        """See `ProbedEngineKind.probe`."""
        if self.urls:
            return [f"rollout.engine vllm: {url} has vLLM {ask_version(url)}" for url in self.urls]
        if self.command:
            return [
                f"rollout.engine vllm: {self.command[0]} starts the servers, and their version is checked then"
            ]
        version = require_installation(self.python)
        return [
            f"rollout.engine vllm: vLLM {version} in the environment of {self.python or 'vlrft'}"
        ]

    def build(self, policy: Policy) -> RolloutEngine:
        """See `RolloutEngineKind.build`."""
        return self.build_at(policy, EnginePlace())

    def build_at(self, policy: Policy, place: EnginePlace) -> RolloutEngine:
        """See `PlacedEngineKind`. Servers start with the first weights."""
        try:
            from vlrft.rollout.engines.vllm.engine import VllmEngine
        except ModuleNotFoundError as e:
            raise ConfigError(
                [f"rollout.engine: vllm needs {e.name}; pip install 'vlrft[vllm]'"]
            ) from None
        return VllmEngine(self, policy, place)
