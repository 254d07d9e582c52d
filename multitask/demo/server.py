"""The page and its answers over HTTP, for browsers on this machine.

GET / is the page. Each other address is a method of `Demo`. It takes its arguments as an object of
JSON in a POST, and its result goes back as JSON.

Pages of other sites cannot ask it: a browser sends JSON to another site only if that site agrees,
and the name in the header Host must be that of this machine.
"""

from __future__ import annotations

import errno
import json
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from minbert.reporting.pages import template_environment
from multitask.demo.answers import Demo

THIS_MACHINE = ("127.0.0.1", "localhost")
LARGEST = 50_000_000  # bytes of a request

# The page may load nothing from anywhere.
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


class DemoServer(ThreadingHTTPServer):
    """Answers requests until it is closed. Raises ValueError where the port is taken."""

    daemon_threads = True

    def __init__(self, demo: Demo, port: int) -> None:
        self.demo = demo
        # A browser opens several connections, and one model answers them.
        self.lock = threading.Lock()
        template = template_environment(is_html=True).get_template("demo.html")
        self.page = template.render(name=demo.name, tasks=demo.tasks())
        try:
            super().__init__((THIS_MACHINE[0], port), DemoHandler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise ValueError(
                f"--port {port} cannot be used ({error.strerror}). Pass another one, or --port 0, "
                "which takes a free one."
            ) from error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, unless the browser did not wait for the answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """What a user opens in a browser."""
        return f"http://{THIS_MACHINE[0]}:{self.server_port}"


def open_server(run: Path, port: int) -> DemoServer:
    """A server for the run in a folder. Raises ValueError as `Predictor`, and for a taken port."""
    return DemoServer(Demo(run), port)


class DemoHandler(BaseHTTPRequestHandler):
    """One request."""

    server: DemoServer

    def do_GET(self) -> None:
        """Send the page."""
        if not self.is_of_this_machine():
            self.send_object(HTTPStatus.FORBIDDEN, {"error": "Open 127.0.0.1 on this machine."})
        elif self.path == "/":
            self.send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page.encode())
        else:
            self.send_object(HTTPStatus.NOT_FOUND, {"error": f"There is no {self.path}."})

    def do_POST(self) -> None:
        """Send what a method of Demo answers."""
        method = self.server.demo.methods().get(self.path)
        length = self.headers.get("Content-Length", "")
        if not self.is_of_this_machine() or self.headers.get_content_type() != "application/json":
            self.send_object(HTTPStatus.FORBIDDEN, {"error": "Only the page itself may ask."})
        elif method is None:
            self.send_object(HTTPStatus.NOT_FOUND, {"error": f"There is no {self.path}."})
        elif not length.isdecimal() or int(length) > LARGEST:
            error = f"The file is too large. Up to {LARGEST // 10**6} MB can be sent."
            self.send_object(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": error})
        else:
            body = self.rfile.read(int(length))
            try:
                with self.server.lock:
                    result = method(**json.loads(body))
            except (ValueError, TypeError) as error:
                self.send_object(HTTPStatus.BAD_REQUEST, {"error": str(error)})
            else:
                self.send_object(HTTPStatus.OK, result)

    def is_of_this_machine(self) -> bool:
        """Whether the page was opened by a name of this machine."""
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        return host in THIS_MACHINE

    def send_object(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        """Send JSON."""
        self.send(status, "application/json", json.dumps(content).encode())

    def send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        """Send a whole answer. kind: its MIME type."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: the page shows what went wrong."""
