"""HTTPS by files, which are read again when they change."""

import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest

from tests.server.certificates import OPENSSL, self_signed
from tests.server.up import PATIENCE, Up, chat, deployment

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="no openssl to make certificates with")
FILES = "tls: {cert: cert.pem, key: key.pem}"


def trusting(cert: Path, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(cert))
    if own is not None:
        context.load_cert_chain(*own)
    return context


def serial(up: Up) -> bytes:
    """What tells the certificate it shows now from another."""
    return ssl.get_server_certificate(
        ("127.0.0.1", int(up.wait_for("listening on https").rpartition(":")[2]))
    ).encode()


def url(up: Up) -> str:
    return up.wait_for("listening on https").rpartition(" ")[2]


def test_what_is_asked_and_answered_is_encrypted(tmp_path: Path) -> None:
    cert, _ = self_signed(tmp_path, "one")
    with Up.start(deployment(tmp_path, FILES)) as up:
        up.wait_for("ready")
        with httpx.Client(verify=trusting(cert), base_url=url(up), timeout=PATIENCE) as client:
            assert client.post("/v1/chat/completions", json=chat("demo")).status_code == 200
            streamed = client.post("/v1/chat/completions", json=chat("demo", stream=True))
            assert streamed.text.endswith("data: [DONE]\n\n")
        with pytest.raises(httpx.HTTPError):
            httpx.get(url(up).replace("https", "http") + "/healthz", timeout=PATIENCE)


def test_a_certificate_that_changes_on_disk_is_shown_to_the_next_and_a_broken_one_is_not(tmp_path: Path) -> None:
    self_signed(tmp_path, "one")
    with Up.start(deployment(tmp_path, FILES)) as up:
        up.wait_for("ready")
        before = serial(up)
        cert, _ = self_signed(tmp_path, "two")
        end = time.monotonic() + PATIENCE
        while serial(up) == before:
            assert time.monotonic() < end
        assert httpx.get(f"{url(up)}/healthz", verify=trusting(cert), timeout=PATIENCE).status_code == 200
        shown = serial(up)
        cert.write_text("no certificate")
        up.wait_for("tls.rejected")
        assert serial(up) == shown


def test_clients_without_a_certificate_are_refused_where_one_is_asked_for(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path, "one")
    with Up.start(deployment(tmp_path, "tls: {cert: cert.pem, key: key.pem, client_ca: cert.pem}")) as up:
        up.wait_for("ready")
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url(up)}/healthz", verify=trusting(cert), timeout=PATIENCE)
        known = trusting(cert, (cert, key))
        assert httpx.get(f"{url(up)}/healthz", verify=known, timeout=PATIENCE).status_code == 200


def test_tls_is_switched_on_and_off_by_a_save(tmp_path: Path) -> None:
    cert, _ = self_signed(tmp_path, "one")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Up.start(deployment(tmp_path, listen=f"127.0.0.1:{port}")) as up:
        up.wait_for("ready")
        for tls in (FILES, None):
            deployment(tmp_path, tls or "", listen=f"127.0.0.1:{port}")
            scheme = "https" if tls else "http"
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    # Who speaks the other language is not answered.
                    found = httpx.get(f"{scheme}://127.0.0.1:{port}/healthz", verify=trusting(cert), timeout=1)
                    break
                except httpx.HTTPError:
                    assert time.monotonic() < end
            assert found.status_code == 200
        assert not [line for line in up.errors if "pending_restart" in line]


def test_files_that_cannot_be_used_are_said_at_the_start(tmp_path: Path) -> None:
    self_signed(tmp_path, "one")
    (tmp_path / "cert.pem").write_text("nothing")
    with Up.start(deployment(tmp_path, FILES)) as up:
        assert up.exit_code() == 78
        assert "cert.pem" in up.errors[-1]
        assert "cannot be used: no PEM in them" in up.errors[-1]
