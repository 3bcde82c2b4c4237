"""What operators do with subscriptions: create, disable, enable, rotate, send again. One use case behind every door."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import AddressRefused, InvalidRequest, SendingNotFound, SubscriptionDisabled
from signoff.domain.subscriptions import NewSubscription, SubscriptionKind, parse_subscription
from signoff.infra.postgres.sendings import Range, SendingTable
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.subscriptions import SubscriptionTable
from signoff.infra.postgres.views_events import START, read_cursor
from signoff.infra.webhooks.public_addresses import parse_target
from signoff.infra.webhooks.signatures import new_secret

DEFAULT_OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=30)
FROM_START = "start"

# Plain addresses alone: no names, no quotes, no second address, nothing that a header could be made of.
_MAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
MAX_MAIL_CHARACTERS = 254


@dataclass(frozen=True, slots=True)
class Created:
    """`secret` is shown this once; None where nothing is signed."""

    id: UUID
    name: str
    secret: str | None = field(repr=False)


async def create_subscription(store: PostgresStore, raw: Any, who: Principal) -> Created:
    """Raises RightMissing, InvalidRequest, AddressRefused, SubscriptionExists."""
    require_right(who, Right.operate)
    new = parse_subscription(raw)
    _check_target(new)
    cursor = None if new.after is None else read_cursor(START if new.after == FROM_START else new.after)
    secret = new_secret() if new.kind is SubscriptionKind.webhook else None
    id_ = uuid4()
    async with store.begin_as(who.name) as tx:
        subscriptions = SubscriptionTable(tx.conn)
        await subscriptions.create(id_, new, who.name, cursor)
        if secret is not None:
            await subscriptions.add_secret(id_, secret)
    return Created(id_, new.name, secret)


async def disable_subscription(store: PostgresStore, reference: str, who: Principal, reason: str) -> UUID:
    """Nothing is sent there any more. Raises RightMissing, SubscriptionNotFound."""
    require_right(who, Right.operate)
    async with store.begin_as(who.name) as tx:
        subscriptions = SubscriptionTable(tx.conn)
        id_ = (await subscriptions.find(reference)).id
        await subscriptions.disable(id_, who.name, reason)
        return id_


async def enable_subscription(store: PostgresStore, reference: str, who: Principal) -> UUID:
    """Goes on where it stopped, as far as events are still kept; what waits is tried at once.

    Raises RightMissing, SubscriptionNotFound.
    """
    require_right(who, Right.operate)
    async with store.begin_as(who.name) as tx:
        subscriptions = SubscriptionTable(tx.conn)
        id_ = (await subscriptions.find(reference)).id
        if await subscriptions.enable(id_):
            await SendingTable(tx.conn).hurry(id_)
        return id_


async def rotate_secret(
    store: PostgresStore, reference: str, who: Principal, overlap: timedelta = DEFAULT_OVERLAP
) -> Created:
    """A new secret that signs from now on; those before it sign too until the overlap has passed.

    Raises RightMissing, SubscriptionNotFound, InvalidRequest.
    """
    require_right(who, Right.operate)
    if not timedelta() <= overlap <= LONGEST_OVERLAP:
        raise InvalidRequest(
            f"the overlap must be from 0 to {LONGEST_OVERLAP.total_seconds():.0f} s", field="overlap_seconds"
        )
    secret = new_secret()
    async with store.begin_as(who.name) as tx:
        subscriptions = SubscriptionTable(tx.conn)
        found = await subscriptions.find(reference)
        if found.kind is not SubscriptionKind.webhook:
            raise InvalidRequest(f"what goes to {found.kind} is not signed: there is no secret to rotate")
        await subscriptions.add_secret(found.id, secret, overlap)
    return Created(found.id, found.name, secret)


async def send_again(
    store: PostgresStore, reference: str, who: Principal, wanted: Range, *, dry_run: bool = False
) -> int:
    """How many sendings that had ended are pending once more, or would be; asked again, those are not counted twice.

    Raises:
        RightMissing, SubscriptionNotFound, SendingNotFound, SubscriptionDisabled; InvalidRequest where nothing says
        which.
    """
    require_right(who, Right.operate)
    if wanted == Range():
        raise InvalidRequest("say which: one by its id, or by status or time")
    async with store.begin_as(who.name) as tx:
        found = await SubscriptionTable(tx.conn).find(reference)
        sendings = SendingTable(tx.conn)
        if wanted.sending_id is not None and not await sendings.exists(found.id, wanted.sending_id):
            raise SendingNotFound(f"{found.name} has no sending {wanted.sending_id}")
        if dry_run:
            return await sendings.count(found.id, wanted)
        if found.disabled:
            raise SubscriptionDisabled(f"{found.name} is disabled: enable it first")
        return await sendings.ask_again(found.id, wanted)


def _check_target(new: NewSubscription) -> None:
    if new.kind is not SubscriptionKind.mail:
        parse_target(new.target, allow_private=new.allow_private)
    elif len(new.target) > MAX_MAIL_CHARACTERS or not _MAIL.fullmatch(new.target):
        raise AddressRefused("the target must be one plain mail address, like leads@example.com")
