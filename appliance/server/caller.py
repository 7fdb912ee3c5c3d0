"""Who asks for something, and how: all that deciding on a request needs beside its body."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sanic import Request

from appliance.config.access import Key
from appliance.server.door import Passage
from appliance.server.edge import request_id


@dataclass(frozen=True, slots=True)
class Caller:
    """`id` is the request's, `path` its endpoint's, names of `headers` are in lower case.

    Nobody waits for what is asked for in the `background`: it goes behind everything else and has no deadlines.
    """

    id: str
    path: str
    key: Key | None = None
    passage: Passage = field(default_factory=Passage)
    headers: Mapping[str, str] = field(default_factory=dict)
    background: bool = False

    @property
    def key_name(self) -> str | None:
        return self.key.name if self.key else None


def key_name(request: Request) -> str | None:
    """The name of the key a request came with; None for a client that needs none."""
    return request.ctx.key.name if request.ctx.key else None


def caller_of(request: Request) -> Caller:
    """The client of a request that is inside the door."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Caller(request_id(request), request.path, request.ctx.key, request.ctx.passage, headers)
