"""The container engine's API, the calls we need, typed. Streams in; facts, changes or EngineError out.

Every changing call may be repeated: done already is done. Knows nothing of plans. Credentials go into
one request's header and nowhere else.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote

import httpx

from ..errors import EngineError
from ..transport.base import ByteStream
from ..transport.http import http_client
from ..types.names import DEPLOYMENT_LABEL
from ..types.release import ContainerSpec
from .deadline import Due, DueStream
from .engine_body import create_body, differences, published_elsewhere
from .engine_stream import frames, lines, messages

_NEWEST = (1, 51)
"""The newest API we were written against; newer engines still speak it, older ones their own."""
_DEADLINE_S = 60.0


class EngineSilent(EngineError):
    """No answer in time, or no more of it."""


class EngineLost(EngineError):
    """The connection to the engine broke. Not ConnectionLost: the host is still there, and the engine may
    be up again in a moment."""


class EngineClient:
    """One engine, reached by opening a stream. Names are those an operator knows.

    Every call may raise EngineSilent and EngineLost besides what it says.
    """

    def __init__(self, open_stream: Callable[[], ByteStream]) -> None:
        self._due: Due | None = None
        self._http = http_client(lambda: DueStream(open_stream(), lambda: self._due), timeout_s=_DEADLINE_S)
        self._version = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End its connections; safe to repeat."""
        self._http.close()

    @contextmanager
    def within(self, due: Due) -> Iterator[None]:
        """All calls inside, together, end when `due` is over, with OperationFailed. One thread at a time."""
        before, self._due = self._due, due
        try:
            yield
        finally:
            self._due = before

    # -- engine -------------------------------------------------------------------------------------

    def api_version(self) -> str:
        """The version we speak: the engine's own, at most the newest we know."""
        if not self._version:
            response = self._send("GET", "http://engine/_ping")
            spoken = response.headers.get("api-version", "")
            if not spoken:
                raise EngineError("what answers on the engine's socket is not a Docker engine")
            known = min(tuple(int(part) for part in spoken.split(".")), _NEWEST)
            self._version = ".".join(str(part) for part in known)
        return self._version

    # -- images -------------------------------------------------------------------------------------

    def image(self, reference: str) -> dict[str, Any] | None:
        """An image by reference (`repository@digest` or a tag) or id; None: the engine has none."""
        return self._look(f"/images/{quote(reference, safe='/:@')}/json")

    def held_image(self, references: Sequence[str], digest: str) -> str | None:
        """The first of `references` that the engine holds, else any name of its that ends in `digest`:
        the same content, pulled from elsewhere."""
        for reference in references:
            if self.image(reference) is not None:
                return reference
        for image in self._call("GET", "/images/json").json():
            for held in image.get("RepoDigests") or ():
                if held.rpartition("@")[2] == digest:
                    return str(held)
        return None

    def pull(
        self,
        reference: str,
        *,
        platform: str,
        auth: dict[str, str] | None,
        stall_s: float,
        on_message: Callable[[dict[str, Any]], None],
    ) -> None:
        """Pull `repository@digest`. `stall_s`: silence after which it is given up (EngineSilent)."""
        repository, _, tag = reference.partition("@")
        headers = {}
        if auth is not None:
            encoded = base64.urlsafe_b64encode(json.dumps(auth).encode()).decode()
            headers["X-Registry-Auth"] = encoded
        params = {"fromImage": repository, "tag": tag, "platform": platform}
        with self._stream("POST", "/images/create", stall_s, params=params, headers=headers) as response:
            for message in messages(response.iter_lines()):
                on_message(message)

    def remove_image(self, reference: str) -> None:
        """Remove a reference, and the image when it was its last. Absent is done."""
        self._call("DELETE", f"/images/{quote(reference, safe='/:@')}", absent_is_done=True)

    # -- containers ---------------------------------------------------------------------------------

    def container(self, name: str) -> dict[str, Any] | None:
        """Inspect; None: there is none of that name."""
        found = self._look(f"/containers/{quote(name)}/json")
        # The engine also finds containers by the beginning of an id.
        return found if found is not None and found["Name"] == f"/{name}" else None

    def create(
        self, name: str, spec: ContainerSpec, references: Sequence[str], labels: dict[str, str]
    ) -> list[str]:
        """Create, not start; gives the engine's warnings. One that is there and agrees is done.

        Raises EngineError where the name is taken by another or the engine changed a field.
        """
        image = self.held_image((*references, spec.image), spec.image.rpartition("@")[2])
        if image is None:
            raise EngineError(f"image {spec.image} is not on the host", status=404, do="plan again")
        body = create_body(spec, image, labels)
        found = self.container(name)
        if found is not None and found["State"]["Status"] == "created" and _labelled(found, labels):
            self.remove(name)  # an earlier create of ours that may have been cut short
            found = None
        warnings: list[str] = []
        if found is None:
            response = self._call("POST", "/containers/create", params={"name": name}, body=body)
            warnings = list(response.json().get("Warnings") or ())
        elif not _labelled(found, labels):
            raise EngineError(f"a container {name} of another release is there already", status=409)
        for network in spec.networks[1:]:
            self.connect(network, name)
        wrong = differences(body, self._inspect(name))
        if wrong:
            told = "; ".join(str(difference) for difference in wrong)
            raise EngineError(f"the engine did not create {name} as told: {told}")
        return warnings

    def start(self, name: str) -> None:
        """Start; running is done.

        Raises EngineError where a port is open elsewhere than asked for: the engine takes a host address
        that is none without a word, and publishes to everybody. The container is stopped again then.
        """
        self._call("POST", f"/containers/{quote(name)}/start")
        wrong = published_elsewhere(self._inspect(name))
        if wrong:
            self.stop(name, 0)
            told = "; ".join(str(difference) for difference in wrong)
            raise EngineError(f"{name} was published elsewhere than told and is stopped again: {told}")

    def stop(self, name: str, grace_s: int) -> None:
        """Stop, and kill after `grace_s`. Absent or stopped is done."""
        self._call(
            "POST",
            f"/containers/{quote(name)}/stop",
            params={"t": str(grace_s)},
            absent_is_done=True,
            deadline_s=grace_s + _DEADLINE_S,
        )

    def rename(self, name: str, to: str) -> None:
        """Rename; done when `name` is absent and `to` is there."""
        if self.container(name) is None and self.container(to) is not None:
            return
        self._call("POST", f"/containers/{quote(name)}/rename", params={"name": to})

    def remove(self, name: str) -> None:
        """Stop and remove, with its anonymous volumes. Absent is done."""
        params = {"force": "true", "v": "true"}
        self._call("DELETE", f"/containers/{quote(name)}", params=params, absent_is_done=True)

    def restart_policy(self, name: str, policy: str) -> None:
        """Set what happens when it exits (`no`, `unless-stopped`, …), also while it runs."""
        self._call("POST", f"/containers/{quote(name)}/update", body={"RestartPolicy": {"Name": policy}})

    def logs(self, name: str, *, tail: int, follow: bool = False) -> Iterator[str]:
        """The last `tail` lines, both streams in the order the engine kept them; `follow`: and those to
        come, until the container stops."""
        flags = {"stdout": "true", "stderr": "true", "tail": str(tail), "follow": str(follow).lower()}
        silence_s = None if follow else _DEADLINE_S
        with self._stream("GET", f"/containers/{quote(name)}/logs", silence_s, params=flags) as response:
            yield from lines(frames(response.iter_raw()))

    def run_inside(
        self, name: str, command: list[str], *, env: dict[str, str], deadline_s: float
    ) -> tuple[int, bytes]:
        """Run a command in a running container: exit code and output. `env` shows in no inspect."""
        body = {
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": command,
            "Env": [f"{key}={value}" for key, value in env.items()],
        }
        exec_id = self._call("POST", f"/containers/{quote(name)}/exec", body=body).json()["Id"]
        start = {"Detach": False, "Tty": False}
        with self._stream("POST", f"/exec/{exec_id}/start", deadline_s, body=start) as response:
            output = b"".join(frames(response.iter_raw()))
        return int(self._json("GET", f"/exec/{exec_id}/json")["ExitCode"]), output

    # -- networks -----------------------------------------------------------------------------------

    def network(self, name: str) -> dict[str, Any] | None:
        """Inspect; None: there is none of that name."""
        found = self._look(f"/networks/{quote(name)}")
        return found if found is not None and found["Name"] == name else None

    def create_network(self, name: str, *, subnet: str, internal: bool, labels: dict[str, str]) -> None:
        """Create a bridge network. One that is there must be the same, or it is an error."""
        found = self.network(name)
        if found is None:
            body = {
                "Name": name,
                "CheckDuplicate": True,
                "Driver": "bridge",
                "Internal": internal,
                "IPAM": {"Driver": "default", "Config": [{"Subnet": subnet}]},
                "Labels": labels,
            }
            self._call("POST", "/networks/create", body=body)
            return
        subnets = [entry.get("Subnet") for entry in (found.get("IPAM") or {}).get("Config") or ()]
        same = subnets == [subnet] and found["Internal"] == internal
        if not same or (found.get("Labels") or {}).get(DEPLOYMENT_LABEL) != labels.get(DEPLOYMENT_LABEL):
            raise EngineError(
                f"a network {name} is there already, on {subnets}, and not as wanted", status=409
            )

    def connect(self, network: str, container: str) -> None:
        """Connect; connected is done. In a network that publishes, its ports are open from then on.

        Raises EngineError where one is open elsewhere than asked for, as `start` does; it is disconnected
        again then.
        """
        if network in self._inspect(container)["NetworkSettings"]["Networks"]:
            return
        self._call("POST", f"/networks/{quote(network)}/connect", body={"Container": container})
        wrong = published_elsewhere(self._inspect(container))
        if wrong:
            self.disconnect(network, container)
            told = "; ".join(str(difference) for difference in wrong)
            raise EngineError(f"{container} was published elsewhere than told and is cut off again: {told}")

    def disconnect(self, network: str, container: str) -> None:
        """Disconnect; not connected, or no such container, is done."""
        found = self.container(container)
        if found is not None and network in found["NetworkSettings"]["Networks"]:
            self._call("POST", f"/networks/{quote(network)}/disconnect", body={"Container": container})

    def remove_network(self, name: str) -> None:
        """Remove; absent is done."""
        self._call("DELETE", f"/networks/{quote(name)}", absent_is_done=True)

    # -- volumes ------------------------------------------------------------------------------------

    def volume(self, name: str) -> dict[str, Any] | None:
        """Inspect; None: there is none of that name."""
        return self._look(f"/volumes/{quote(name)}")

    def containers_with(self, volume: str) -> tuple[str, ...]:
        """Names of the containers that mount a volume, running or not."""
        # The filter also finds what mounts a folder of that path; a volume's name is none.
        params = {"all": "true", "filters": json.dumps({"volume": [volume]})}
        found = self._call("GET", "/containers/json", params=params).json()
        return tuple(sorted(name.removeprefix("/") for each in found for name in (each["Names"] or [])[:1]))

    def remove_volume(self, name: str) -> None:
        """Remove; absent is done. Raises EngineError with status 409 while a container mounts it."""
        self._call("DELETE", f"/volumes/{quote(name)}", absent_is_done=True)

    # -- requests -----------------------------------------------------------------------------------

    def _inspect(self, name: str) -> dict[str, Any]:
        return self._json("GET", f"/containers/{quote(name)}/json")

    def _look(self, path: str) -> dict[str, Any] | None:
        response = self._call("GET", path, absent_is_done=True)
        found: dict[str, Any] = response.json()
        return None if response.status_code == httpx.codes.NOT_FOUND else found

    def _json(self, method: str, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._call(method, path).json()
        return answer

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        absent_is_done: bool = False,
        deadline_s: float = _DEADLINE_S,
    ) -> httpx.Response:
        response = self._send(method, self._url(path), params=params, json=body, timeout=deadline_s)
        if absent_is_done and response.status_code == httpx.codes.NOT_FOUND:
            return response
        _raise(response)
        return response

    @contextmanager
    def _stream(
        self,
        method: str,
        path: str,
        silence_s: float | None,
        *,
        params: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        url = self._url(path)
        timeout = httpx.Timeout(_DEADLINE_S, read=silence_s)
        with (
            _errors(method, url),
            self._http.stream(
                method, url, params=params, json=body, headers=headers, timeout=timeout
            ) as response,
        ):
            if response.is_error:
                response.read()
            _raise(response)
            yield response

    def _url(self, path: str) -> str:
        return f"http://engine/v{self.api_version()}{path}"

    def _send(self, method: str, url: str, **request: Any) -> httpx.Response:
        with _errors(method, url):
            return self._http.request(method, url, **request)


@contextmanager
def _errors(method: str, url: str) -> Iterator[None]:
    """What goes wrong between us and the engine, in our words."""
    try:
        yield
    except httpx.TimeoutException:
        raise EngineSilent(f"the engine did not answer in time ({method} {url})") from None
    except httpx.HTTPError as error:
        raise EngineLost(f"the connection to the engine broke: {error}") from None


def _labelled(inspected: dict[str, Any], labels: dict[str, str]) -> bool:
    found = inspected["Config"].get("Labels") or {}
    return all(found.get(name) == value for name, value in labels.items())


def _raise(response: httpx.Response) -> None:
    if not response.is_error:
        return
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text.strip() or response.reason_phrase
    raise EngineError(message, status=response.status_code)
