"""A server with the routes of vLLM 0.32 that vlrft calls, whose completions are computed from prompt and seed in microseconds.

    with FakeVllm(vocab=300, ends=[2]) as server:
        engine = {"name": "vllm", "urls": [server.url]}

In a process of its own: `python -m vlrft.testing.fake_vllm serve MODEL --port 8000`, where `POST /fake {"refuse_updates": 1}` sets
attributes of `Faults`. Only the standard library is imported, so that it starts at once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlrft.testing.json_server import JsonServer

VERSION = "0.32.0+cpu"
BANNED = "vlrft_banned_token_ids"  # of the logits processor in packages/vlrft-vllm
Body = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class FakeRequest:
    """One completion that is asked for."""

    prompt: tuple[int, ...]
    seed: int
    weights: (
        str  # a hash of the weights' file, or of the adapter's; of the base before the first update
    )
    images: tuple[str, ...]  # their hashes
    params: Body  # vLLM's sampling parameters
    vocab: int


Completion = tuple[Sequence[int], Sequence[float]]
Answer = Callable[[FakeRequest], Completion]


def random_tokens(request: FakeRequest) -> Completion:
    """Tokens that depend on the prompt, its images, the seed and the weights; each has the log-prob of its uniform distribution."""
    params = request.params
    banned = set((params.get("extra_args") or {}).get(BANNED, ()))
    allowed = params.get("allowed_token_ids") or range(request.vocab)
    tokens = [token for token in allowed if token not in banned]
    key = (request.prompt, request.images, request.weights)
    seed = 0 if params.get("temperature") == 0 else request.seed
    digest = hashlib.sha256(repr((key, seed)).encode()).digest()
    chosen = random.Random(digest).choices(tokens, k=params["max_tokens"])
    value = -(len(tokens).bit_length() - 1) * 0.6931471805599453
    ends = set(params.get("stop_token_ids") or ())
    length = next((k + 1 for k, token in enumerate(chosen) if token in ends), len(chosen))
    return chosen[:length], [value] * length


@dataclass
class Faults:
    """Faults of the server from now on. A count is used up."""

    die_after: int | None = None
    """Requests for completions after which the server is gone, in a process without cleaning up."""
    die_in_update: bool = False
    hang: bool = False
    """Completions are not answered until it is false."""
    hang_after: int | None = None
    """Tokens after which completions wait, until it is None or they are aborted."""
    refuse_updates: int = 0
    """Updates that fail with 500."""
    hang_in_update: bool = False
    version: str | None = None
    """The weights' version in place of the true one."""
    change_prompt: bool = False
    """Answers state another prompt."""
    ignore_bans: bool = False
    refuse_reset: bool = False
    fail: dict[str, int] = field(default_factory=dict[str, int])
    """Path -> the number of its next calls that fail with 500."""


class FakeVllm:
    """The server, in threads of this process while the `with` block lasts."""

    def __init__(
        self,
        *,
        vocab: int = 256,
        answer: Answer = random_tokens,
        port: int = 0,
        version: str = VERSION,
        exits: bool = False,
    ) -> None:
        """`port` 0: any free one. `exits`: `die_after` ends the process."""
        self.vocab, self.answer, self.release, self.exits = vocab, answer, version, exits
        self.faults = Faults()
        self.calls: list[tuple[str, Body]] = []  # path and body of every POST, in order
        self.version = "default"
        self.weights = "base"
        self.adapters: dict[str, str] = {}
        self.images: set[str] = set()  # hashes in the cache
        self.paused = self.updating = self.sleeping = self.gone = False
        self.changed = threading.Condition()
        self.aborts = 0  # how often all requests were aborted
        self.running = 0
        self.asked = 0  # completions
        self._http = JsonServer(self.get, self.post, lambda: self.gone, port)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeVllm:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self._thread.join()

    def serve(self) -> None:
        """Serves in this thread, for ever."""
        self._http.serve_forever(0.05)

    def set(self, **faults: object) -> None:
        """Sets attributes of `faults` and wakes requests that wait."""
        with self.changed:
            for name, value in faults.items():
                if not hasattr(self.faults, name):
                    raise AttributeError(name)
                setattr(self.faults, name, value)
            self.changed.notify_all()

    def wait_until(self, reached: Callable[[FakeVllm], bool], seconds: float = 20.0) -> bool:
        """Waits for a state, such as `lambda server: server.running == 3`."""
        with self.changed:
            return self.changed.wait_for(lambda: reached(self), seconds)

    def paths(self) -> list[str]:
        """The paths that were posted to, in order."""
        return [path for path, _ in self.calls]

    def die(self) -> None:
        """Ends the server: requests that wait are cut off, and the port is closed."""
        if self.exits:
            os._exit(9)
        with self.changed:
            if self.gone:
                return
            self.gone = True
            self.changed.notify_all()
        threading.Thread(target=self._close, daemon=True).start()

    def _close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    # --- the routes ---

    def get(self, path: str) -> tuple[int, Body]:
        """The answer to a GET."""
        version = self.version if self.faults.version is None else self.faults.version
        answers: dict[str, Body] = {
            "/health": {},
            "/version": {"version": self.release},
            "/weight_info": {"weight_version": version},
            "/is_paused": {"is_paused": self.paused},
            "/get_world_size": {"world_size": 1},
            "/v1/models": {"data": [{"id": name} for name in ("policy", *self.adapters)]},
            "/fake": {"asked": self.asked, "paths": self.paths()},
        }
        return (200, answers[path]) if path in answers else (404, {"error": path})

    def post(self, path: str, query: dict[str, list[str]], body: Body) -> tuple[int, Body]:
        """The answer to a POST."""
        with self.changed:
            self.calls.append((path, body))
            if self.faults.fail.get(path):
                self.faults.fail[path] -= 1
                return 500, {"error": {"message": f"{path} fails as it was told to"}}
        if path == "/inference/v1/generate":
            return self._generate(body)
        name = path.strip("/").replace("/", "_").removeprefix("v1_")
        route: Callable[..., tuple[int, Body]] | None = getattr(self, f"_post_{name}", None)
        return (404, {"error": path}) if route is None else route(query, body)

    def _post_fake(self, query: dict[str, list[str]], body: Body) -> tuple[int, Body]:
        self.set(**body)
        return 200, {}

    def _post_init_weight_transfer_engine(self, query: object, body: Body) -> tuple[int, Body]:
        return 200, {"message": "initialized", "init_info": body["init_info"]}

    def _post_start_weight_update(self, query: object, body: Body) -> tuple[int, Body]:
        if self.updating:
            return 500, {"error": "an update is open"}
        self.updating = True
        return 200, {}

    def _post_update_weights(self, query: object, body: Body) -> tuple[int, Body]:
        if self.faults.die_in_update:
            self.die()
        with self.changed:
            self.changed.wait_for(lambda: self.gone or not self.faults.hang_in_update)
        if not self.updating:
            return 500, {"error": "no update is open"}
        if self.faults.refuse_updates:
            self.faults.refuse_updates -= 1
            self.updating = False
            return 500, {"error": {"message": "the weights are refused as they were told to be"}}
        try:
            self.weights = _digest(Path(body["update_info"]["path"]))
        except OSError as e:
            self.updating = False
            return 500, {"error": {"message": str(e)}}
        return 200, {}

    def _post_finish_weight_update(self, query: object, body: Body) -> tuple[int, Body]:
        if not self.updating:
            return 500, {"error": "no update is open"}
        self.updating = False
        if body.get("weight_version") is not None:
            self.version = body["weight_version"]
        return 200, {}

    def _post_update_weight_version(self, query: object, body: Body) -> tuple[int, Body]:
        self.version = body["new_version"]
        return 200, {"success": True}

    def _post_pause(self, query: dict[str, list[str]], body: Body) -> tuple[int, Body]:
        if query.get("mode", ["abort"]) != ["abort"]:
            return 400, {"error": "only mode=abort is faked"}
        with self.changed:
            self.paused = True
            self.aborts += 1
            self.changed.notify_all()
        return 200, {"status": "paused"}

    def _post_resume(self, query: object, body: Body) -> tuple[int, Body]:
        with self.changed:
            self.paused = False
            self.changed.notify_all()
        return 200, {"status": "resumed"}

    def _post_abort_requests(self, query: object, body: Body) -> tuple[int, Body]:
        with self.changed:
            self.aborts += 1
            self.changed.notify_all()
        return 200, {"status": "aborted"}

    def _post_reset_prefix_cache(self, query: object, body: Body) -> tuple[int, Body]:
        return 200, {"success": not self.faults.refuse_reset}

    def _post_reset_encoder_cache(self, query: object, body: Body) -> tuple[int, Body]:
        return 200, {}

    def _post_reset_mm_cache(self, query: object, body: Body) -> tuple[int, Body]:
        self.images.clear()
        return 200, {}

    def _post_weight_checker(self, query: object, body: Body) -> tuple[int, Body]:
        return 200, {"checksums": {"weights": self.weights}}

    def _post_sleep(self, query: object, body: Body) -> tuple[int, Body]:
        self.sleeping = True
        return 200, {"status": "sleeping"}

    def _post_wake_up(self, query: object, body: Body) -> tuple[int, Body]:
        self.sleeping = False
        return 200, {"status": "awake"}

    def _post_load_lora_adapter(self, query: object, body: Body) -> tuple[int, Body]:
        if body["lora_name"] in self.adapters:
            return 400, {"message": "already loaded"}
        try:
            digest = _digest(Path(body["lora_path"]) / "adapter_model.safetensors")
        except OSError as e:
            return 404, {"message": str(e)}
        self.adapters[body["lora_name"]] = digest
        return 200, {}

    def _post_unload_lora_adapter(self, query: object, body: Body) -> tuple[int, Body]:
        found = self.adapters.pop(body["lora_name"], None)
        return (200, {}) if found else (404, {"message": "not loaded"})

    def _generate(self, body: Body) -> tuple[int, Body]:
        model = body.get("model")
        if model not in (None, "policy", *self.adapters):
            return 404, {"error": {"message": f"no model {model}"}}
        features = body.get("features") or {}
        hashes = features.get("mm_hashes", {}).get("image", [])
        sent = (features.get("kwargs_data") or {}).get("image") or [None] * len(hashes)
        for key, data in zip(hashes, sent, strict=True):
            if data is None and key not in self.images:
                return 500, {"error": {"message": f"the image {key} is not in the cache"}}
        with self.changed:
            self.images.update(hashes)
            self.asked += 1
            self.changed.notify_all()
            if self.faults.die_after is not None:
                self.faults.die_after -= 1
            dies = self.faults.die_after is not None and self.faults.die_after < 0
        if dies:
            self.die()
            return 503, {"error": "gone"}
        params = body["sampling_params"]
        if self.faults.ignore_bans:
            params = {
                k: v for k, v in params.items() if k not in ("extra_args", "allowed_token_ids")
            }
        with self.changed:
            self.changed.wait_for(lambda: self.gone or not (self.paused or self.faults.hang))
            aborts, version = self.aborts, self.version
            self.running += 1
            self.changed.notify_all()
        request = FakeRequest(
            prompt=tuple(body["token_ids"]),
            seed=params.get("seed", 0),
            weights=self.adapters.get(model or "", self.weights),
            images=tuple(hashes),
            params=params,
            vocab=self.vocab,
        )
        ids, logprobs = self.answer(request)
        ends = set(params.get("stop_token_ids") or ())
        finish = "stop" if ids and ids[-1] in ends else "length"
        at = self.faults.hang_after
        if at is not None and at < len(ids):
            with self.changed:
                self.changed.wait_for(
                    lambda: self.gone or self.faults.hang_after is None or self.aborts > aborts
                )
                if self.aborts > aborts:
                    ids, logprobs, finish = ids[:at], logprobs[:at], "abort"
        with self.changed:
            self.running -= 1
            self.changed.notify_all()
        prompt = [*body["token_ids"]]
        if self.faults.change_prompt:
            prompt.append(prompt[-1])
        claimed = version if self.faults.version is None else self.faults.version
        spans = [{"version": claimed, "start": 0, "end": len(ids)}] if ids else None
        content = [
            {"token_id": token, "logprob": value, "rank": 1, "top_logprobs": []}
            for token, value in zip(ids, logprobs, strict=True)
        ]
        choice = {
            "index": 0,
            "finish_reason": finish,
            "token_ids": [*ids],
            "logprobs": {"content": content},
            "weight_versions": spans,
        }
        asked = body.get("return_token_ids")
        return 200, {
            "request_id": body.get("request_id", ""),
            "model": model or "policy",
            "prompt_token_ids": prompt if asked else None,
            "choices": [choice],
        }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def main() -> None:
    """Serves with the arguments of `vllm serve`; those that a fake has no use for are accepted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("serve")
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8000)
    known, _ = parser.parse_known_args()
    config = json.loads((Path(known.model) / "config.json").read_text())
    vocab = config.get("vocab_size") or config["text_config"]["vocab_size"]
    server = FakeVllm(vocab=vocab, port=known.port, exits=True)
    print(f"a fake vLLM serves {known.model} at {server.url}", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
