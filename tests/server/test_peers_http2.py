"""Peers that speak HTTP/2 are asked many things over one connection."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.server.certificates import OPENSSL, self_signed
from tests.server.h2_peer import H2Peer
from tests.server.up import Up, chat, deployment

TOGETHER = 8


@pytest.mark.skipif(OPENSSL is None, reason="no openssl to make certificates with")
def test_requests_at_one_time_share_one_connection(tmp_path: Path) -> None:
    files = self_signed(tmp_path, "peer")
    with H2Peer(files, TOGETHER) as peer:
        far = f'{{url: "https://localhost:{peer.port}", health: 1h}}'
        more = f"routing: {{peers: {{far: {far}}}}}\n"
        environ = {**os.environ, "APPLIANCE_HOME": str(tmp_path / "home"), "SSL_CERT_FILE": str(files[0])}
        with Up.start(deployment(tmp_path, more=more), env=environ) as up:
            up.wait_for("ready")
            up.until('appliance_peer_up{peer="far"}', 1)
            with ThreadPoolExecutor(TOGETHER) as pool:
                answers = list(pool.map(lambda n: up.post(chat("far/m", str(n))), range(TOGETHER)))
        assert [answer.json()["choices"][0]["message"]["content"] for answer in answers] == ["far away"] * TOGETHER
        assert peer.connections <= 2
