"""What a node says of itself, over its API."""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any, Optional

_TIMEOUT = 5.0


class _Unix(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT)
        self.sock.connect(self._path)


def read(data_dir: str) -> Optional[dict[str, Any]]:
    """The document that `p2pdiloco status --json` prints; None where no node answers."""
    try:
        address = _text(data_dir, "api")
        headers = {}
        if address.startswith("unix:"):
            connection: http.client.HTTPConnection = _Unix(address[len("unix:"):])
        else:
            connection = http.client.HTTPConnection(address, timeout=_TIMEOUT)
            headers["Authorization"] = "Bearer " + _text(data_dir, "api.token")
        try:
            connection.request("GET", "/status", headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        return dict(json.loads(body)) if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None


def _text(data_dir: str, name: str) -> str:
    with open(os.path.join(data_dir, name), encoding="utf-8") as f:
        return f.read().strip()
