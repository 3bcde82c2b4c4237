"""What follows from an answer that came too late to be recorded under its fence.

It is always kept. It may settle doubt, since it is the provider's word about the operation; and it raises an alarm
where the effect was sent again meanwhile, or the ledger says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from signoff.domain.effects import SUCCESS, Effect, EffectStatus, Outcome, Step, after_lapse

S = EffectStatus
RESTORED = "restored"
BACK_IN_DOUBT = Step(S.in_doubt, doubt=True, reason="an answer came late")
MAY_HAVE_HAPPENED = frozenset({S.retry_wait, S.in_doubt, S.dispatched, S.succeeded})


class AlarmKind(StrEnum):
    """`duplicate`: it may have happened twice. `contradiction`: it happened, and the ledger says that it did not."""

    duplicate = "duplicate"
    contradiction = "contradiction"


@dataclass(frozen=True, slots=True)
class Alarm:
    kind: AlarmKind
    message: str


@dataclass(frozen=True, slots=True)
class FromEvidence:
    """The steps that the effect takes, in order, and what a person has to look at."""

    steps: tuple[Step, ...] = ()
    alarm: Alarm | None = None


def from_evidence(
    effect: Effect, attempt: int, outcome: Outcome, *, only_unknown: bool, holds: bool = False
) -> FromEvidence:
    """What a late `outcome` of try number `attempt` makes of the effect as it is now.

    `only_unknown`: of no other try it is unknown what came of it. `holds`: its tool wants an operator to look at a
    refusal. Of tries that a restored ledger knows nothing of, there may be more.
    """
    if outcome is Outcome.succeeded:
        return FromEvidence(_to_success(effect, attempt), _alarm(effect, attempt))
    whole = attempt <= effect.attempts and effect.error_code != RESTORED
    settles = effect.status is S.in_doubt and only_unknown and whole
    if settles and outcome is Outcome.refused:
        return FromEvidence((Step(S.failed, doubt=False, reason="the answer came late: refused", holds=holds),))
    if settles and outcome is Outcome.not_applied:
        return FromEvidence((Step(S.retry_wait, doubt=False, reason="the answer came late: not applied"),))
    return FromEvidence()


def from_another_generation(effect: Effect, outcome: Outcome) -> FromEvidence:
    """What a late word makes of the effect that is about a try before an operator had it sent anew, under another key:
    since it had failed for certain."""
    if outcome is not Outcome.succeeded:
        return FromEvidence()
    said = f"a try before it was sent anew succeeded after all, and the ledger says {effect.status}"
    # What has not left again waits for a person.
    steps = (BACK_IN_DOUBT,) if effect.status in (S.planned, S.retry_wait) else ()
    return FromEvidence(steps, Alarm(AlarmKind.contradiction, said))


def _to_success(effect: Effect, attempt: int) -> tuple[Step, ...]:
    success = Step(SUCCESS.to, SUCCESS.doubt, reason="the answer came late: it happened")
    if effect.status is S.in_doubt:
        return (success,)
    if effect.status in (S.planned, S.retry_wait):
        # It is about to be sent again, and must not.
        return (BACK_IN_DOUBT, success)
    if effect.status is S.dispatched and effect.attempts == attempt:
        return (*after_lapse(), success)
    # Another try is under way: its own end will find this answer.
    return ()


def _alarm(effect: Effect, attempt: int) -> Alarm | None:
    again = effect.attempts - attempt
    if effect.status not in MAY_HAVE_HAPPENED:
        said = f"try {attempt} succeeded after all, but the ledger says {effect.status}"
        return Alarm(AlarmKind.contradiction, said)
    if again > 0:
        said = f"try {attempt} succeeded after all, and it was sent {again} more time{'s' * (again > 1)} meanwhile"
        return Alarm(AlarmKind.duplicate, said)
    return None
