"""Sending one mail, with an honest word about what became of it."""

from __future__ import annotations

import smtplib
from contextlib import suppress
from email.errors import MessageError
from email.message import EmailMessage

from signoff.workers import NotApplied, Refused

SENDER = "desk@support-desk.example"
SECONDS_TO_WAIT = 10.0
PERMANENT = 500  # answers from here on mean: never; below: not now


def post(host: str, port: int, message_id: str, to: str, subject: str, body: str) -> None:
    """Hands one mail to the mail server.

    Raises:
        NotApplied: nobody took it, and another try may succeed.
        Refused: it can't be sent as it is, or the server said no.
        Exception: anything else; nobody knows whether it was taken.
    """
    mail = _compose(message_id, to, subject, body)
    try:
        server = smtplib.SMTP(host, port, timeout=SECONDS_TO_WAIT)
    except OSError as error:
        raise NotApplied(f"the mail server can't be reached: {error}") from error
    try:
        _hand_over(server, mail)
    finally:
        # Whatever the server says to a farewell, the mail is where it is.
        with suppress(OSError):
            server.quit()


def _hand_over(server: smtplib.SMTP, mail: EmailMessage) -> None:
    try:
        server.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        ((code, _),) = error.recipients.values()
        raise _said_no(code, error) from error
    except smtplib.SMTPSenderRefused as error:
        raise _said_no(error.smtp_code, error) from error
    except smtplib.SMTPDataError as error:
        if error.smtp_code >= PERMANENT:
            raise _said_no(error.smtp_code, error) from error
        raise  # "not now" after the whole mail was handed over: too late to be sure of


def _said_no(code: int, error: Exception) -> Exception:
    kind = Refused if code >= PERMANENT else NotApplied
    return kind(f"the mail server did not take it: {error}")


def _compose(message_id: str, to: str, subject: str, body: str) -> EmailMessage:
    mail = EmailMessage()
    try:
        mail["Message-ID"], mail["From"], mail["To"], mail["Subject"] = message_id, SENDER, to, subject
        mail.set_content(body)
        if len(mail["To"].addresses) != 1:
            raise ValueError("it needs exactly one address")
    except (ValueError, MessageError) as error:
        raise Refused(f"this is no mail that can be sent: {error}") from error
    return mail
