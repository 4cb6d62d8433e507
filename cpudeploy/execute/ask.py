"""One request to a model's server: through the host's connection, else from inside its container.

A check and a key in, status and body out. The key travels in a header or in a process's environment
inside the container, never in argv.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx

from ..errors import ConnectError, ConnectionLost, CpudeployError, OperationFailed
from ..transport.base import ByteStream
from ..transport.http import http_client
from ..types.release import Check
from .deadline import Due, DueStream
from .engine import EngineClient

Dial = Callable[[str, int], ByteStream]

# The configuration comes through the environment and printf, a builtin: it shows in no process list.
_CURL = 'printf "%s" "$CPUDEPLOY_CURL" | exec curl --config -'
_NO_SUCH_COMMAND = (126, 127)


class Unreachable(Exception):
    """Nothing answers (yet); the text is why."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


class Asker:
    """Asks one container. `address`: where its port is on the host; `inside`: its port in the container."""

    def __init__(
        self,
        engine: EngineClient,
        dial: Dial,
        container: str,
        address: tuple[str, int],
        inside: int,
        key: str | None,
    ) -> None:
        self._engine = engine
        self._container = container
        self._inside = inside
        self._key = key
        self._forwarding = True
        self._due: Due | None = None
        self._http = http_client(lambda: DueStream(dial(*address), lambda: self._due), timeout_s=10)

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def ask(self, check: Check, timeout_s: float) -> Answer:
        """The whole answer, within `timeout_s`. Raises Unreachable while there is none, OperationFailed
        where there never can be one."""
        self._due = Due("the answer", timeout_s)
        if self._forwarding:
            try:
                return self._through_host(check, timeout_s)
            except ConnectionLost:
                raise
            except ConnectError:
                self._forwarding = False  # sshd's policy: that does not change while we wait
        return self._from_inside(check, timeout_s)

    def _through_host(self, check: Check, timeout_s: float) -> Answer:
        try:
            response = self._http.request(
                check.method, check.path, content=check.body, headers=self._headers(check), timeout=timeout_s
            )
        except httpx.TimeoutException:
            raise Unreachable(f"no answer in {timeout_s:.0f} s") from None
        except httpx.HTTPError as error:
            raise Unreachable(f"the connection broke: {error}") from None
        except OperationFailed as error:
            raise Unreachable(error.what) from None
        return Answer(response.status_code, response.content)

    def _from_inside(self, check: Check, timeout_s: float) -> Answer:
        headers = [f"{name}: {value}" for name, value in self._headers(check).items()]
        options = [("url", f"http://127.0.0.1:{self._inside}{check.path}"), ("request", check.method)]
        options += [("header", header) for header in headers]
        options += [("max-time", f"{timeout_s:.0f}"), ("write-out", "\n%{http_code}")]
        if check.body is not None:
            options.append(("data-raw", check.body))
        config = "silent\nshow-error\n" + "".join(f'{name} = "{_quoted(value)}"\n' for name, value in options)
        try:
            rc, output = self._engine.run_inside(
                self._container,
                ["sh", "-c", _CURL],
                env={"CPUDEPLOY_CURL": config},
                deadline_s=timeout_s + 10,
            )
        except CpudeployError as error:
            raise Unreachable(error.what) from None
        if rc in _NO_SUCH_COMMAND:
            raise OperationFailed(
                f"{self._container} can't be asked: sshd forbids forwarding and the image has no curl",
                do="allow it in sshd_config (AllowTcpForwarding), or use an image with curl",
            )
        body, _, status = output.rpartition(b"\n")
        if rc != 0 or not status.isdigit():
            raise Unreachable(output.decode(errors="replace").strip())
        return Answer(int(status), body)

    def _headers(self, check: Check) -> dict[str, str]:
        headers = {"Content-Type": "application/json"} if check.body is not None else {}
        if check.auth and self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers


def _quoted(value: str) -> str:
    """A value between double quotes of curl's configuration."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
