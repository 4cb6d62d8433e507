"""A weights file by the host's own curl: everything curl is told, and what its end means."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from ..secrets import Secrets
from ..types.operation import Fetch
from ..types.resolved import WeightFile
from .fetching import Attempt, Ended, Shell, arguments, login_for, script

_STATUS = re.compile(r"returned error: (\d{3})")
_STALLED = "curl: (28)"


def curl_attempt(host: Shell, operation: Fetch, secrets: Secrets) -> Attempt:
    """Attempts by the script that runs curl."""

    def attempt(url: str, had: int, left_s: float, told: Callable[[int], None]) -> Ended:
        ended = Ended(have=had)

        def line(text: str) -> None:
            if ended.line(text) == "have":
                told(ended.have)

        done = host.run(
            script("fetch"),
            args=arguments(operation),
            deadline_s=left_s,
            stdin=curl_config(operation.file, url, operation.stall_s, secrets).encode(),
            on_line=line,
        )
        ended.code = done.rc
        if done.rc != 0 and not ended.error:
            ended.error = done.stderr.strip().rpartition("\n")[2]
        status = _STATUS.search(ended.error)
        ended.status = int(status[1]) if status else None
        ended.stalled = _STALLED in ended.error
        return ended

    return attempt


def curl_config(file: WeightFile, url: str, stall_s: int, secrets: Secrets) -> str:
    """Everything curl is told, token included: for its standard input only."""
    options = {
        "url": url,
        "connect-timeout": "20",
        "speed-limit": "1",
        "speed-time": str(stall_s),
        "max-redirs": "10",
        "user-agent": "cpudeploy",
    }
    if urlsplit(url).scheme == "https":
        options["proto-redir"] = "=https"
    lines = ["fail", "location", "silent", "show-error"]
    lines += [f'{name} = "{_quoted(value)}"' for name, value in options.items()]
    for name, value in login_for(file, url, secrets).items():
        header = _quoted(f"{name}: {value}")
        lines.append(f'header = "{header}"')
    return "\n".join(lines)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "")
