"""Prechecks: what an effect relies on, looked at right before it leaves."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from signoff.domain.effects import Effect
from signoff.domain.policy import Judgement, Verdict
from signoff.workers import results
from signoff.workers.approving import ReviewAgain, Revoked
from signoff.workers.carrying import MAX_MESSAGE_CHARACTERS
from signoff.workers.current import CurrentEffect, running
from signoff.workers.declaring import Precheck
from signoff.workers.outcomes import Changed
from signoff.workers.shielding import is_cancelled

LONGEST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Prechecks:
    """An effect that may leave as far as the ledger, the policy and people go; its tool wants to look first."""

    effect: Effect
    precheck: Precheck


@dataclass(frozen=True, slots=True)
class Checked:
    """What a precheck has found: None if all is as it must be."""

    changed: str | None


async def run_precheck(prechecks: Prechecks, current: CurrentEffect, args: Mapping[str, Any]) -> Checked:
    """Calls the tool's precheck. One that fails, or takes too long, says nothing good: it counts as a change."""
    try:
        with running(current):
            async with asyncio.timeout(LONGEST_SECONDS):
                looked = prechecks.precheck(dict(args))
                if inspect.isawaitable(looked):
                    await looked
    except Changed as change:
        return Checked(_short(str(change) or "it is not as it was"))
    except TimeoutError:
        return Checked(f"the precheck gave no answer within {LONGEST_SECONDS:g} s")
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        return Checked(_short(f"the precheck failed: {type(error).__name__}"))
    except (Exception, SystemExit) as error:
        return Checked(_short(f"the precheck failed: {type(error).__name__}: {error}"))
    return Checked(None)


def again_for_change(judgement: Judgement, changed: str) -> ReviewAgain | Revoked:
    """The call goes back to review, whatever the policy says of it: by its rule's reviewers, or those who stand in."""
    if not judgement.reviewers:
        return Revoked(f"{changed}; the policy names nobody who could decide whether it may go on")
    review = replace(judgement, verdict=Verdict.review)
    return ReviewAgain(review, judgement.approvals, f"something has changed: {changed}")


def _short(text: str) -> str:
    return results.storable(text)[:MAX_MESSAGE_CHARACTERS]
