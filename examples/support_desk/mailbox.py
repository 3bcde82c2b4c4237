"""A mail server that delivers nothing and keeps every mail in a file of JSON lines.

python -m examples.support_desk.mailbox --port 8025 --log mail.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from email import message_from_bytes
from email.policy import default as mail_policy
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiosmtpd.smtp import SMTP, Envelope, Session

from examples.support_desk.faults import Fault, FaultKind, Faults
from examples.support_desk.journal import Journal


class Mailbox:
    """The mail server in this process, in a thread of its own: `with Mailbox(log) as mailbox: mailbox.port`."""

    host = "127.0.0.1"

    def __init__(self, log: Path, *, port: int = 0) -> None:
        self.journal = Journal(log)
        self.faults = Faults()
        self._loop = asyncio.new_event_loop()
        make = lambda: SMTP(_Keeper(self), hostname="support-desk.example", loop=self._loop)  # noqa: E731
        self._server = self._loop.run_until_complete(self._loop.create_server(make, self.host, port))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def mails(self) -> list[dict[str, Any]]:
        """Every mail that was taken, oldest first: message_id, to, subject, body."""
        return list(self.journal.entries())

    def serve(self) -> None:
        """Serves until the process is stopped."""
        self._loop.run_forever()

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._server.close()
        self._loop.run_until_complete(self._end_tasks())
        self._loop.close()
        self.journal.close()

    async def _end_tasks(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Keeper:
    """What aiosmtpd asks about each recipient and each mail."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.endswith(".invalid"):
            return "550 there is nobody of that name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        fault = self._mailbox.faults.take(envelope.rcpt_tos[0])
        if fault is None:
            self._keep(envelope)
            return "250 OK"
        return await self._with_fault(server, envelope, fault)

    async def _with_fault(self, server: SMTP, envelope: Envelope, fault: Fault) -> str:
        if fault.kind is FaultKind.delay_before:
            await asyncio.sleep(fault.seconds)
        if fault.kind in (FaultKind.error_before, FaultKind.decline):
            return "451 not now" if fault.kind is FaultKind.error_before else "554 we don't take it"
        self._keep(envelope)
        if fault.kind is FaultKind.delay_after:
            await asyncio.sleep(fault.seconds)
        if fault.kind is FaultKind.drop_reply and isinstance(server.transport, asyncio.Transport):
            server.transport.abort()
        return "451 taken, and then fell over" if fault.kind is FaultKind.error_after else "250 OK"

    def _keep(self, envelope: Envelope) -> None:
        content = envelope.original_content or b""
        mail = message_from_bytes(content, policy=mail_policy)
        body = mail.get_body()
        self._mailbox.journal.add(
            message_id=str(mail["Message-ID"]),
            to=list(envelope.rcpt_tos),
            subject=str(mail["Subject"]),
            body=body.get_content().strip() if body is not None else "",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="The support desk's mail server, on loopback")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args()
    mailbox = Mailbox(options.log, port=options.port)
    print(mailbox.port, flush=True)
    try:
        mailbox.serve()
    except KeyboardInterrupt:
        pass
    finally:
        mailbox.close()


if __name__ == "__main__":
    main()
