"""How a fake vLLM gets weights: from a file, by a broadcast, or as an adapter. Only the standard library is imported."""

from __future__ import annotations

import hashlib
from pathlib import Path

from vlrft.testing.fake_completions import Body
from vlrft.testing.fake_server import FakeServer
from vlrft.testing.fake_worker import FakeWorker
from vlrft.testing.json_server import JsonServer


class FakeWeightServer(FakeServer):
    """The routes by which weights arrive, and digests of these weights."""

    def __init__(self, http: JsonServer, *, exits: bool) -> None:
        super().__init__(http, exits=exits)
        self.version = "default"
        self.weights = "base"
        self.adapters: dict[str, str] = {}
        self.updating = False
        self.worker: FakeWorker | None = None

    def _post_init_weight_transfer_engine(self, query: object, body: Body) -> tuple[int, Body]:
        if self.worker is not None:
            self.worker.leave()
            self.worker = None
        if body["init_info"]:
            self.worker = FakeWorker(body["init_info"])
        return 200, {"message": "initialized"}

    def _post_start_weight_update(self, query: object, body: Body) -> tuple[int, Body]:
        if self.updating:
            return 500, {"error": "an update is open"}
        self.updating = True
        return 200, {}

    def _post_update_weights(self, query: object, body: Body) -> tuple[int, Body]:
        if self.faults.die_in_update:
            self.die()
        with self.changed:
            self.engine_dead = self.faults.engine_dies_in_update
            self.changed.wait_for(
                lambda: self.gone or not (self.engine_dead or self.faults.hang_in_update)
            )
        if not self.updating:
            return 500, {"error": "no update is open"}
        if self.faults.refuse_updates:
            self.faults.refuse_updates -= 1
            self.updating = False
            return 500, {"error": {"message": "the weights are refused: Faults.refuse_updates"}}
        try:
            self.weights = self._load(body["update_info"])
        except (OSError, RuntimeError) as e:
            self.updating = False
            return 500, {"error": {"message": str(e)}}
        return 200, {}

    def _load(self, update: Body) -> str:
        """A digest of the weights, of a file or a broadcast."""
        if "path" in update:
            return _digest(Path(update["path"]))
        if self.worker is None:
            raise RuntimeError("no trainer was met that could broadcast")
        left, self.faults.leave_broadcast = self.faults.leave_broadcast, None
        try:
            return self.worker.receive(update, lambda k: not self.gone and k != left)
        except RuntimeError:
            self.worker = None
            raise

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

    def _post_weight_checker(self, query: object, body: Body) -> tuple[int, Body]:
        return 200, {"checksums": {"weights": self.weights}}

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


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
