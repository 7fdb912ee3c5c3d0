"""Which pages in a browser may call, and under which names this server answers: PURE.

A page can send requests here without reading the answers, and one whose own name is made to point here (DNS
rebinding) can read them, too. Neither can bring a key it does not know, so keys are what keeps pages out; where none
is needed, the names do.
"""

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from appliance.errors import UntrustedHost, UntrustedOrigin

HEADERS = "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, x-session-id, x-request-id"
EXPOSED = "x-request-id, x-appliance-model, x-appliance-route, x-appliance-params, retry-after"
SHOWN = 100


def host_of(header: str) -> str:
    """The name or address in a Host header, in lower case, without the port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def check_host(header: str | None, trusted: Collection[str]) -> None:
    """Raises UntrustedHost for a name that is not `trusted`; who sends none is no browser."""
    if header is not None and trusted and host_of(header) not in {name.lower() for name in trusted}:
        raise UntrustedHost(f"this server does not answer to {header[:SHOWN]!r} (server.trusted_hosts)")


def check_page(headers: Mapping[str, str], trusted: Collection[str], cors: Collection[str]) -> None:
    """For a request without a key. Raises UntrustedHost where a foreign name points here, UntrustedOrigin for a page
    from elsewhere.
    """
    header, origin = headers.get("host"), headers.get("origin")
    if header is not None and not trusted and not _is_own(host_of(header)):
        raise UntrustedHost(
            f"without a key this server does not answer to {header[:SHOWN]!r}; list it under server.trusted_hosts"
        )
    if origin is not None and not allowed(origin, cors) and _is_elsewhere(origin, header or ""):
        raise UntrustedOrigin(f"pages of {origin[:SHOWN]!r} may not call this server; list it under server.cors")


def allowed(origin: str, cors: Collection[str]) -> bool:
    """Whether pages of this origin may call and read the answers."""
    return origin in cors or "*" in cors


def granted(origin: str | None, cors: Collection[str]) -> dict[str, str]:
    """Headers that let a page read an answer; none where it may not."""
    if origin is None or not allowed(origin, cors):
        return {"vary": "origin"} if cors else {}
    return {"access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED, "vary": "origin"}


def preflight(origin: str | None, cors: Collection[str]) -> dict[str, str]:
    """The answer to a browser that asks before it sends."""
    found = granted(origin, cors)
    if "access-control-allow-origin" not in found:
        return found
    return {
        **found,
        "access-control-allow-methods": "GET, HEAD, POST, DELETE",
        "access-control-allow-headers": HEADERS,
        "access-control-max-age": "600",
    }


def _is_own(host: str) -> bool:
    """Names that nobody can point elsewhere: addresses, and this machine's own."""
    if host == "localhost" or host.endswith(".localhost") or not host:
        return True
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_elsewhere(origin: str, host: str) -> bool:
    """Programs made of pages have schemes of their own; `null` is a page that hides where it is from."""
    scheme, _, rest = origin.partition("://")
    return origin == "null" or (scheme in ("http", "https") and rest.lower() != host.lower())
