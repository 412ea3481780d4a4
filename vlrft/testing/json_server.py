"""An HTTP server of JSON answers, for fakes. Only the standard library is imported."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, dict[str, Any]]  # the status code and the body


class JsonServer(ThreadingHTTPServer):
    """Answers GET from `get(path)` and POST from `post(path, query, body)`, each request in a thread of its own."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(
        self,
        get: Callable[[str], Answer],
        post: Callable[[str, dict[str, list[str]], Any], Answer],
        is_gone: Callable[[], bool],
        port: int = 0,
    ) -> None:
        """`is_gone`: whether connections are cut off in place of an answer. `port` 0: any free one."""
        self.get, self.post, self.is_gone = get, post, is_gone
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of the server."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _answers(self) -> JsonServer:
        assert isinstance(self.server, JsonServer)
        return self.server

    def do_GET(self) -> None:
        self._send(*self._answers.get(urlsplit(self.path).path))

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(content) if content else {}
        self._send(*self._answers.post(parts.path, parse_qs(parts.query), body))

    def _send(self, code: int, answer: dict[str, Any]) -> None:
        if self._answers.is_gone():
            self.close_connection = True
            self.connection.close()
            return
        content = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Writes nothing."""
