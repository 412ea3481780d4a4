"""A server with the routes of vLLM 0.32 that vlrft calls, whose completions are computed from prompt and seed in microseconds.

    with FakeVllm(vocab=300) as server:
        engine = {"name": "vllm", "urls": [server.url]}

In a process of its own: `python -m vlrft.testing.fake_vllm serve MODEL --port 8000`, where `POST /fake {"refuse_updates": 1}` sets
attributes of `Faults`. Only the standard library is imported, so that it starts at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from vlrft.testing.fake_completions import (
    Answer,
    Body,
    FakeRequest,
    random_tokens,
    write_answer,
)
from vlrft.testing.fake_images import PATH as IMAGES
from vlrft.testing.fake_images import FakeImages, Refusal
from vlrft.testing.fake_weights import FakeWeightServer
from vlrft.testing.json_server import JsonServer

VERSION = "0.32.0+cpu"


class FakeVllm(FakeWeightServer):
    """The routes, and what they change."""

    def __init__(
        self,
        *,
        vocab: int = 256,
        answer: Answer = random_tokens,
        port: int = 0,
        version: str = VERSION,
        exits: bool = False,
        keeps_images: bool = True,
    ) -> None:
        """`port` 0: any free one. `exits`: `die_after` ends the process. `keeps_images`: it has the layer of vlrft-vllm."""
        super().__init__(JsonServer(self.get, self.post, lambda: self.gone, port), exits=exits)
        self.vocab, self.answer, self.release = vocab, answer, version
        self.images = FakeImages(layer=keeps_images)
        self.paused = self.sleeping = False
        self.aborts = 0  # how often all requests were aborted
        self.running = 0
        self.asked = 0  # completions

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
        if path == IMAGES:
            return self.images.describe()
        if path == "/health" and self.engine_dead:
            return 503, {}
        return (200, answers[path]) if path in answers else (404, {"error": path})

    def post(self, path: str, query: dict[str, list[str]], body: Body) -> tuple[int, Body]:
        """The answer to a POST."""
        with self.changed:
            self.calls.append((path, body))
            if self.faults.fail.get(path):
                self.faults.fail[path] -= 1
                return 500, {"error": {"message": f"{path} fails: Faults.fail"}}
            if self.engine_dead and path != "/fake":
                return 500, {"error": {"message": "the engine is dead"}}
        if path == "/inference/v1/generate":
            return self._generate(body)
        name = path.strip("/").replace("/", "_").removeprefix("v1_")
        route: Callable[..., tuple[int, Body]] | None = getattr(self, f"_post_{name}", None)
        return (404, {"error": path}) if route is None else route(query, body)

    def _post_fake(self, query: dict[str, list[str]], body: Body) -> tuple[int, Body]:
        self.set(**body)
        return 200, {}

    def _post_vlrft_images(self, query: object, body: Body) -> tuple[int, Body]:
        return self.images.put(body, keeps=not self.faults.keep_no_images)

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
        self.images.cached.clear()
        return 200, {}

    def _post_sleep(self, query: object, body: Body) -> tuple[int, Body]:
        self.sleeping = True
        return 200, {"status": "sleeping"}

    def _post_wake_up(self, query: object, body: Body) -> tuple[int, Body]:
        self.sleeping = False
        return 200, {"status": "awake"}

    def _generate(self, body: Body) -> tuple[int, Body]:
        model = body.get("model")
        if model not in (None, "policy", *self.adapters):
            return 404, {"error": {"message": f"no model {model}"}}
        features = body.get("features") or {}
        hashes = features.get("mm_hashes", {}).get("image", [])
        sent = (features.get("kwargs_data") or {}).get("image") or [None] * len(hashes)
        found = self.images.find(hashes, sent)
        if isinstance(found, Refusal):
            return found.answer
        with self.changed:
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
            images=found,
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
        answer = write_answer(request, (ids, logprobs), finish, version=claimed, prompt=prompt)
        if not body.get("return_token_ids"):
            answer["prompt_token_ids"] = None
        names = {"request_id": body.get("request_id", ""), "model": model or "policy"}
        return 200, names | answer


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
