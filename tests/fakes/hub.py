"""A hub on this machine that takes uploads: the few answers of the real one that huggingface_hub needs for a commit."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OID = "a" * 40


@dataclass
class Hub:
    """The requests that were sent: by method and path, files by name, and the tokens that came with them."""

    requests: list[str] = field(default_factory=list[str])
    created: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])  # sha256 -> content
    tokens: set[str | None] = field(default_factory=set["str | None"])
    summary: str = ""
    refuse: bool = False
    url: str = ""


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """A hub that listens on a port of this machine, for the time of the context."""
    hub = Hub()

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._log()
            self._send({"sha": OID, "id": "me/model", "siblings": []})

        def do_POST(self) -> None:
            content = self._log()
            if hub.refuse:
                self._send({"error": "Invalid username or password."}, 401)
            elif self.path == "/api/repos/create":
                hub.created.append(json.loads(content))
                self._send({"url": f"{hub.url}/me/model", "id": "me/model"})
            elif "/preupload/" in self.path:
                self._send({"files": [preupload(file) for file in json.loads(content)["files"]]})
            elif self.path.endswith("/info/lfs/objects/batch"):
                asked = json.loads(content)["objects"]
                self._send({"transfer": "basic", "objects": [target(o, hub.url) for o in asked]})
            elif "/commit/" in self.path:
                commit(hub, content)
                self._send(
                    {
                        "success": True,
                        "commitUrl": f"{hub.url}/me/model/commit/{OID}",
                        "commitOid": OID,
                    }
                )
            else:
                self._send({})

        def do_PUT(self) -> None:
            hub.objects[self.path.rsplit("/", 1)[1]] = self._log()
            self._send({})

        def _log(self) -> bytes:
            hub.requests.append(f"{self.command} {self.path}")
            if self.path.startswith("/api"):
                hub.tokens.add(self.headers.get("authorization"))
            return self.rfile.read(int(self.headers.get("content-length") or 0))

        def _send(self, content: dict[str, Any], status: int = 200) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.send_header("x-request-id", "1")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def preupload(file: dict[str, Any]) -> dict[str, Any]:
    """How a file is sent: weights apart, everything else in the commit."""
    large = file["path"].endswith(".safetensors")
    mode = "lfs" if large else "regular"
    return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": None}


def target(asked: dict[str, Any], url: str) -> dict[str, Any]:
    """Where an object is to be put."""
    upload = {"href": f"{url}/objects/{asked['oid']}", "header": {}}
    return {**asked, "actions": {"upload": upload}}


def commit(hub: Hub, content: bytes) -> None:
    """Takes the files of a commit, a JSON object a line."""
    for line in content.splitlines():
        entry = json.loads(line)
        value = entry["value"]
        if entry["key"] == "header":
            hub.summary = value["summary"]
        elif entry["key"] == "file":
            hub.files[value["path"]] = base64.b64decode(value["content"])
        elif entry["key"] == "lfsFile":
            hub.files[value["path"]] = hub.objects[value["oid"]]
