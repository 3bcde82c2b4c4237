"""One mail by SMTP, told as a `Reply` whatever happens."""

from __future__ import annotations

import asyncio
import json
import smtplib
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from signoff.domain.sendings import Meaning, Reply
from signoff.infra.settings import Settings

MAILS_AT_ONCE = 4
OPERATION_SECONDS = 10.0
TIMEOUT_SECONDS = 45.0


@dataclass(frozen=True, slots=True)
class Relay:
    """The mail server that takes our mail."""

    host: str
    port: int
    sender: str
    starttls: bool
    username: str | None = None
    password: str | None = field(default=None, repr=False)


def relay_of(settings: Settings) -> Relay | None:
    """None unless a server and a sender are set."""
    if settings.smtp_host is None or settings.smtp_from is None:
        return None
    password = settings.smtp_password.get_secret_value() if settings.smtp_password else None
    return Relay(
        settings.smtp_host,
        settings.smtp_port,
        settings.smtp_from,
        settings.smtp_starttls,
        settings.smtp_username,
        password,
    )


class Mailer:
    """Has threads of its own: a mail server that hangs must not take those that the rest of the process waits for."""

    def __init__(self, relay: Relay | None, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._relay = relay
        self._timeout_seconds = timeout_seconds
        self._threads = ThreadPoolExecutor(MAILS_AT_ONCE, thread_name_prefix="mail")

    async def send(self, to: str, body: str, message_id: str, now: datetime) -> Reply:
        """`body` is {"subject", "text"} as JSON. Never raises for what the server or the network does."""
        if self._relay is None:
            return Reply(Meaning.failed, error="no mail server: set SIGNOFF_SMTP_HOST and SIGNOFF_SMTP_FROM")
        mail = make_mail(self._relay.sender, to, body, message_id, now)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, _send, self._relay, mail)
        except TimeoutError:
            return Reply(Meaning.failed, error=f"the mail server did not answer within {self._timeout_seconds:g} s")

    def close(self) -> None:
        """Waits for nobody."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def make_mail(sender: str, to: str, body: str, message_id: str, now: datetime) -> EmailMessage:
    """The same `Message-ID` on every attempt: a mail that comes twice can be told by it."""
    content = json.loads(body)
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = to
    mail["Subject"] = content["subject"]
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message_id}@signoff>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(content["text"] + "\n", cte="quoted-printable")
    return mail


def _send(relay: Relay, mail: EmailMessage) -> Reply:
    try:
        server = smtplib.SMTP(relay.host, relay.port, timeout=OPERATION_SECONDS)
        with closing(server):
            _introduce(server, relay)
            server.send_message(mail)
            # The mail is taken: how the farewell goes changes nothing.
            with suppress(smtplib.SMTPException, OSError):
                server.quit()
    except smtplib.SMTPAuthenticationError as error:
        # It says nothing about this mail: a corrected setting lets it through.
        return Reply(Meaning.failed, error.smtp_code, "the mail server refused the user name or password")
    except smtplib.SMTPRecipientsRefused as error:
        return _refusal(next(iter(error.recipients.values()))[0])
    except smtplib.SMTPResponseException as error:
        return _refusal(error.smtp_code)
    except smtplib.SMTPNotSupportedError:
        return Reply(Meaning.failed, error="the mail server does not offer what the settings ask for")
    except (smtplib.SMTPException, OSError):
        return Reply(Meaning.failed, error="the mail server can't be reached, or broke the connection off")
    return Reply(Meaning.taken, 250)


def _introduce(server: smtplib.SMTP, relay: Relay) -> None:
    if relay.starttls:
        server.starttls(context=ssl.create_default_context())
    if relay.username is not None:
        server.login(relay.username, relay.password or "")


def _refusal(code: int) -> Reply:
    """5xx is for good, 4xx for now; -1 is a connection that broke."""
    meaning = Meaning.refused if 500 <= code < 600 else Meaning.failed
    return Reply(meaning, code if code > 0 else None, f"the mail server answered {code}")
