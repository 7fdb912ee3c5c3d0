"""From `server.listen` to bound sockets; says in words why an address cannot be had."""

import errno
import os
import socket
import stat
from contextlib import suppress

from appliance.config.deployment import Deployment, FdListen, Listen, TcpListen, UnixListen
from appliance.errors import StartRefused

BACKLOG = 1024
EXPOSED = (
    "can be reached by other machines, and nothing asks them for a key; make one with `appliance keys new NAME`,"
    " listen on 127.0.0.1, or start with --insecure"
)
_LONGEST_UNIX_PATH = 103

_EXIT_CODES = {errno.EADDRINUSE: 75, errno.EACCES: 77, errno.EPERM: 77}
_WORDS = {
    errno.EADDRINUSE: "another program is listening there; stop it or change server.listen",
    errno.EACCES: "permission denied; ports below 1024 need privileges",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


def bind(listen: Listen) -> list[socket.socket]:
    """Listening sockets of one address. Raises StartRefused naming the address and the reason."""
    try:
        match listen:
            case TcpListen(host, port):
                return _bind_tcp(host, port)
            case UnixListen(path):
                return [_bind_unix(path)]
            case FdListen(fd):
                return [_adopt(fd)]
    except OSError as error:
        words = _WORDS.get(error.errno or 0, error.strerror or str(error))
        code = _EXIT_CODES.get(error.errno or 0, 78)
        raise StartRefused(f"cannot listen on {listen}: {words}", exit_code=code) from error


def address(sock: socket.socket, secure: bool = False) -> str:
    """Where a client finds this socket, as a URL or `unix:/path`."""
    name, scheme = sock.getsockname(), "https" if secure else "http"
    match sock.family:
        case socket.AF_UNIX:
            return f"unix:{os.fsdecode(name)}"
        case socket.AF_INET6:
            return f"{scheme}://[{name[0]}]:{name[1]}"
        case _:
            return f"{scheme}://{name[0]}:{name[1]}"


def is_loopback(listen: Listen) -> bool:
    """Whether only this machine can reach the address."""
    match listen:
        case TcpListen(host):
            return host in ("localhost", "::1") or host.startswith("127.")
        case _:
            return True


def exposed(deployment: Deployment) -> Listen | None:
    """The first address other machines can reach where nothing asks them for a key."""
    if deployment.security.keys:
        return None
    return next((listen for listen in deployment.server.listen if not is_loopback(listen)), None)


def overlap(a: Listen, b: Listen) -> bool:
    """Whether two addresses may be unable to be had at once."""
    match a, b:
        case TcpListen(port=left), TcpListen(port=right):
            return left == right != 0
        case _:
            return a == b


def _bind_tcp(host: str, port: int) -> list[socket.socket]:
    bound: list[socket.socket] = []
    refused: OSError | None = None
    for family, kind, proto, _, where in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        try:
            bound.append(_bind_one(family, kind, proto, where))
        except OSError as error:
            # A name may stand for an address family this machine does not have.
            refused = error
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                _close(bound)
                raise
    if refused is not None and not bound:
        raise refused
    return bound


def _bind_one(family: int, kind: int, proto: int, where: object) -> socket.socket:
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(where)  # type: ignore[arg-type]
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _bind_unix(path: str) -> socket.socket:
    if len(os.fsencode(path)) > _LONGEST_UNIX_PATH:
        raise OSError(errno.ENAMETOOLONG, f"the path is longer than {_LONGEST_UNIX_PATH} bytes")
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.bind(path)
        os.chmod(path, 0o660)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _remove_stale(path: str) -> None:
    """A socket file nobody listens on is left over from a crash; anything else is somebody's."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(errno.EEXIST, "the path exists and is not a socket")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
            else:
                raise OSError(errno.EADDRINUSE, "in use")


def _adopt(fd: int) -> socket.socket:
    sock = socket.socket(fileno=fd)
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.detach()
        raise OSError(errno.EINVAL, "the descriptor is not a listening socket")
    return sock


def _close(socks: list[socket.socket]) -> None:
    for sock in socks:
        sock.close()
