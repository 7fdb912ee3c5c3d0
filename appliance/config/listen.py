"""What a listen address means."""

import posixpath

from appliance.config.deployment import FdListen, Listen, TcpListen, UnixListen

UNIX_PATH_LIMIT = 103
"""Bytes of a socket path every supported system can bind."""


class BadAddress(ValueError):
    """Carries what is wrong and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def address(text: str, base: str, home: str) -> Listen:
    """`host:port`, `[v6]:port`, `unix:/path` or `fd:3`; no host: every IPv4 address. Raises BadAddress."""
    if text.startswith("unix:"):
        return UnixListen(_socket_path(text.removeprefix("unix:"), base, home))
    if text.startswith("fd:"):
        return FdListen(int(text.removeprefix("fd:")))
    host, _, port = text.rpartition(":")
    if int(port) > 65535:
        raise BadAddress(f"there is no port {port}", "write a port from 0 to 65535")
    return TcpListen(host.strip("[]").lower() or "0.0.0.0", int(port))


def _socket_path(path: str, base: str, home: str) -> str:
    if path.startswith("~/"):
        path = home + path[1:]
    path = posixpath.normpath(posixpath.join(base, path))
    if len(path.encode()) > UNIX_PATH_LIMIT:
        raise BadAddress(
            f"a socket's path has at most {UNIX_PATH_LIMIT} bytes", "choose a shorter one, like /tmp/a.sock"
        )
    return path
