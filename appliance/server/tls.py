"""TLS by files: certificates as they are on disk now, for every connection that begins."""

import os
import ssl
from dataclasses import dataclass, field
from typing import Any

from appliance import log
from appliance.config.deployment import Tls
from appliance.errors import StartRefused

_log = log.get()


def load(tls: Tls) -> ssl.SSLContext:
    """What these files say. Raises StartRefused naming the file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Sanic speaks HTTP/1.1 only: a client must not be promised more.
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise StartRefused(f"server.tls: {tls.cert} and {tls.key} cannot be used: {_words(error)}") from error
    if tls.client_ca is not None:
        try:
            context.load_verify_locations(tls.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise StartRefused(f"server.tls.client_ca: {tls.client_ca} cannot be used: {_words(error)}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Renewed(ssl.SSLContext):
    """What a listener holds; each of its connections begins with the context of that moment."""

    present: ssl.SSLContext

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """As that of the present context; event loops call nothing else."""
        return self.present.wrap_bio(*args, **options)


@dataclass(slots=True)
class Certificates:
    """The files in use and what listeners hold of them. Raises StartRefused for files that cannot be used."""

    tls: Tls
    context: Renewed = field(init=False)
    _seen: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.context = Renewed(ssl.PROTOCOL_TLS_SERVER)
        self.use(self.tls, load(self.tls))

    def use(self, tls: Tls, loaded: ssl.SSLContext) -> None:
        """From the next connection on."""
        self.tls, self.context.present, self._seen = tls, loaded, _signature(tls)

    def renew(self) -> None:
        """Look at the files again; what cannot be used is said once, and changes nothing."""
        if (seen := _signature(self.tls)) == self._seen:
            return
        self._seen = seen
        try:
            self.use(self.tls, load(self.tls))
        except StartRefused as refused:
            _log.error("tls.rejected", reason=refused.message)
        else:
            _log.info("tls.renewed", cert=self.tls.cert)


def _signature(tls: Tls) -> tuple[Any, ...]:
    return tuple(_stat(path) for path in (tls.cert, tls.key, tls.client_ca) if path is not None)


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _words(error: Exception) -> str:
    match error:
        case ssl.SSLError():
            # OpenSSL's words for a file without a certificate or a key in it.
            return "no PEM in them" if error.reason is None and "PEM" in str(error) else error.reason or str(error)
        case OSError():
            return error.strerror or str(error)
    return str(error)
