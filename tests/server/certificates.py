"""Certificates for tests, by the openssl of the machine."""

import shutil
import subprocess
from pathlib import Path

OPENSSL = shutil.which("openssl")


def self_signed(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate for this machine called `name`, and its key."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    fresh_cert, fresh_key = directory / "fresh-cert.pem", directory / "fresh-key.pem"
    subprocess.run(
        [str(OPENSSL), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", str(fresh_key), "-out", str(fresh_cert), "-days", "2", "-subj", f"/CN={name}",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    fresh_key.replace(key)
    fresh_cert.replace(cert)
    return cert, key
