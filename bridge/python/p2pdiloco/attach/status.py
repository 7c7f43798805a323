"""What a node says of itself, over its API."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
from typing import Any, Optional

_TIMEOUT = 5.0
_MISSING = re.compile(r"ranks? \d[^\n\"()]*? of \d+ (?:has|have) not attached")


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
        status, body = _get(data_dir)
        return dict(json.loads(body)) if status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None


def missing(data_dir: str) -> str:
    """The ranks for which a node waits, as in "rank 1 of 2 has not attached"; "" where it does not
    say. A node whose first trainer is not complete has no status yet, and a line that says so."""
    try:
        _, body = _get(data_dir)
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    found = _MISSING.search(body.decode(errors="replace"))
    return found.group() if found else ""


def _get(data_dir: str) -> tuple[int, bytes]:
    """What the API answers, a status of HTTP and a body."""
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
        return answer.status, answer.read()
    finally:
        connection.close()


def _text(data_dir: str, name: str) -> str:
    with open(os.path.join(data_dir, name), encoding="utf-8") as f:
        return f.read().strip()
