"""The command line's side of the admin socket: what was answered, or an error with the exit code it deserves."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import httpx

from appliance.control.state_dir import state_of
from appliance.errors import ApplianceError

BASE = "/admin/v1"
CONNECT_SECONDS = 5.0

_EXIT_CODES = {"config_rejected": 78, "stale_plan": 9, "generation_moved": 9}


class NotReachable(ApplianceError):
    """No appliance serves the file."""

    code = "not_reachable"
    exit_code: ClassVar[int] = 3


class NotYours(ApplianceError):
    """Somebody else's appliance serves the file."""

    code = "not_permitted"
    exit_code: ClassVar[int] = 77


class Refused(ApplianceError):
    """The appliance said no; `problems` as it gave them, where it was about a file."""

    def __init__(self, message: str, code: str, problems: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.reason = code
        self.problems = problems
        self.exit_code = _EXIT_CODES.get(code, 1)


class AdminClient:
    """Speaks to the appliance that serves `file`. Every method raises NotReachable, NotYours and Refused.

    Without an answer's own time limit, such as `timeout` of a wait, there is none.
    """

    def __init__(self, file: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._file = file
        self._path = state_of(file, environ).socket

    def get(self, path: str, **query: str) -> Any:
        """The answer to `GET /admin/v1` + path."""
        return self._ask("GET", path, query, None)

    def post(self, path: str, body: Any = None, **query: str) -> Any:
        """The answer to a POST of bytes as they are, of anything else as JSON."""
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        return self._ask("POST", path, query, content)

    def lines(self, path: str) -> Iterator[dict[str, Any]]:
        """The objects of a stream, until the appliance ends."""
        try:
            with self._client() as client, client.stream("GET", f"{BASE}{path}") as response:
                if response.is_error:
                    response.read()
                    raise _refused(response)
                yield from (json.loads(line) for line in response.iter_lines() if line)
        except httpx.RemoteProtocolError:
            # The appliance ended in the middle.
            return
        except httpx.TransportError as error:
            raise self._closed(error) from error

    def _ask(self, method: str, path: str, query: dict[str, str], body: bytes | None) -> Any:
        try:
            with self._client() as client:
                response = client.request(method, f"{BASE}{path}", params=query, content=body)
        except httpx.TransportError as error:
            raise self._closed(error) from error
        if response.is_error:
            raise _refused(response)
        return response.json()

    def _client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=str(self._path))
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        return httpx.Client(transport=transport, base_url="http://appliance", timeout=timeout)

    def _closed(self, error: BaseException | None) -> ApplianceError:
        """Why nobody answered."""
        while error is not None:
            if isinstance(error, PermissionError):
                message = f"what serves {self._file} answers only the user who started it ({self._path})"
                return NotYours(f"{message}; ask as that user")
            error = error.__context__
        if not self._file.exists():
            return NotReachable(f"there is no {self._file}; write one with `appliance init`, or name one with -f")
        return NotReachable(f"nothing serves {self._file} now; start it with `appliance up -f {self._file}`")


def segment(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def _refused(response: httpx.Response) -> Refused:
    try:
        said = response.json()
        error = said["error"]
        return Refused(error["message"], error["code"], said.get("problems", []))
    except (ValueError, KeyError, TypeError):
        return Refused(f"the appliance answered {response.status_code}", "unknown", [])
