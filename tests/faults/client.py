"""A steady client of one model: asks for a completion again and again, and writes down what came of it.

`python client.py PORT FILE`, the key on stdin: one line of JSON a try, on a connection of its own. Runs
in a host's network, beside the host, so that whatever happens to SSH or to the engine is seen from here.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from pathlib import Path
from typing import Any

EVERY_S = 0.05
PATIENCE_S = 5


def request(port: int, key: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """One answer, as JSON. Raises what a connection raises, ValueError when it is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise ValueError(f"HTTP {response.status}")
        return json.loads(text)
    finally:
        connection.close()


def attempt(port: int, key: str) -> dict[str, Any]:
    """A completion, and the context of the server that gave it, so that one knows which version that was."""
    began = time.monotonic()
    try:
        request(port, key, "POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})
        context = request(port, key, "GET", "/props")["default_generation_settings"]["n_ctx"]
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        context = None
    return {"from": began, "to": time.monotonic(), "context": context}


def main() -> None:
    """Until it is killed."""
    port, file = int(sys.argv[1]), Path(sys.argv[2])
    key = sys.stdin.readline().strip()
    with file.open("a", buffering=1) as log:
        while True:
            tried = attempt(port, key)
            print(json.dumps(tried), file=log)
            time.sleep(max(0.0, EVERY_S - (tried["to"] - tried["from"])))


if __name__ == "__main__":
    main()
