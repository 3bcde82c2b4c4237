"""A worker over one paying tool, which a person has to allow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from signoff.domain.effects import Effect
from signoff.domain.policy import Rule, review
from signoff.infra.postgres.store import PostgresStore
from tests.support.models import calling
from tests.support.paying import Provider
from tests.support.till import Shop

APPROVE = {"type": "approve"}
ASK = (review("*", reviewers=["finance"]),)


class PayingDesk(Shop):
    """Its model pays each of `whom`, one in each job, and then says that it is done."""

    def __init__(
        self, store: PostgresStore, provider: Provider, effect_class: str, *whom: str, rules: Sequence[Rule] = ASK
    ) -> None:
        said: list[Any] = [answer for one in whom for answer in (calling(("pay", {"to": one})), "Done.")]
        terms = {"window": timedelta(hours=1)} if effect_class == "keyed" else {}
        super(Shop, self).__init__(store, [provider.tool(effect_class, **terms)], *said, rules=rules)


async def paid(store: PostgresStore, effect_class: str, behaves: str) -> Effect:
    """The effect of an approved payment, after its provider behaved so."""
    desk = PayingDesk(store, Provider(behaves=[behaves]), effect_class, "ada")
    job = await desk.open()
    await desk.say(job.id, APPROVE)
    await desk.run(job.id)
    await desk.hurry()
    await desk.run(job.id)
    (found,) = await desk.effects(job.id)
    return found
