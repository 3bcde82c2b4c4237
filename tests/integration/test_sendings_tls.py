"""The connection goes to an address, the certificate is for a name."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from signoff.domain.sendings import Meaning, Reply
from signoff.infra.webhooks.outbound import JSON, Poster, Request
from tests.support.receiver import open_receiver

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate"),
]

MAKE = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=receiver.test -addext subjectAltName=DNS:receiver.test"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(certificate, key) for the name receiver.test alone."""
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "certificate.pem", folder / "key.pem"
    command = [*MAKE.split(), "-out", str(made[0]), "-keyout", str(made[1])]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return made


async def here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def post(certificate: tuple[Path, Path], name: str) -> tuple[Reply, list[str | None], int]:
    """How it ended, the names that the server was asked for, and how many requests it was sent."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    asked: list[str | None] = []
    serving.sni_callback = lambda _, asked_name, __: asked.append(asked_name)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    async with open_receiver(serving) as receiver:
        target = f"https://{name}:{receiver.port}/"
        request = Request(target, "{}", JSON, "id", allow_private=True)
        reply = await Poster(resolve=here, tls=trusting).post(request)
        return reply, asked, len(receiver.log)


async def test_the_certificate_is_checked_for_the_name_of_the_target(certificate: tuple[Path, Path]) -> None:
    assert await post(certificate, "receiver.test") == (Reply(Meaning.taken, 204), ["receiver.test"], 1)
    refused = Reply(Meaning.failed, None, "the receiver's certificate was not accepted")
    assert await post(certificate, "other.test") == (refused, ["other.test"], 0)
