"""What a desk of a whole test module stands in: a database, a Redis and outside services of the module's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from signoff.infra.embedded import EmbeddedValkey
from tests.support.databases import fresh_database
from tests.support.desk import Desk, open_desk


@dataclass(frozen=True)
class Surroundings:
    """Opened outside any event loop, as the mailbox has to be."""

    database_url: str
    redis_url: str
    folder: Path
    payments: Payments
    mailbox: Mailbox

    def desk(self) -> AbstractAsyncContextManager[Desk]:
        """A desk in them, without workers yet."""
        return open_desk(self.database_url, self.redis_url, self.folder, self.payments, self.mailbox)


@contextmanager
def open_surroundings(server_url: str, template_database: str, folder: Path) -> Iterator[Surroundings]:
    template = urlsplit(template_database).path.removeprefix("/")
    with (
        EmbeddedValkey() as valkey,
        Payments(folder / "payments.jsonl") as payments,
        Mailbox(folder / "mail.jsonl") as mailbox,
        fresh_database(server_url, template=template) as database_url,
    ):
        yield Surroundings(database_url, valkey.url, folder, payments, mailbox)
