"""Every error that a caller can meet, as one tree.

    SignoffError
    ├── Invalid            the request itself is wrong; nothing was changed
    ├── Forbidden          who asked may not do this
    ├── NotFound
    ├── Conflict           right in form, but not now; the message says what is in the way
    ├── TooManyRequests    right, but too often; nothing was changed
    ├── Unavailable        something that we need is away; try again
    └── (run time)         LeaseLost, DigestMismatch, CannotResume: they end a run, never a request

`code` is the stable string that HTTP bodies, CLI output and events carry. Each leaf has its own.
The HTTP status and the exit code belong to the branch (see `signoff.infra.http.problems`).
"""

from __future__ import annotations

from typing import Any, ClassVar


class SignoffError(Exception):
    """Base of all errors; `code` names what happened, `details` holds the facts for a program."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        # Celery pickles exceptions; keyword fields would be lost without this.
        return (_rebuild, (type(self), self.message, self.details))


def _rebuild(kind: type[SignoffError], message: str, details: dict[str, Any]) -> SignoffError:
    return kind(message, **details)


# --- the branches -----------------------------------------------------------------------------------


class Invalid(SignoffError):
    code = "invalid"


class Forbidden(SignoffError):
    code = "forbidden"


class Unauthenticated(SignoffError):
    code = "unauthenticated"


class NotFound(SignoffError):
    code = "not_found"


class Conflict(SignoffError):
    code = "conflict"


class TooManyRequests(SignoffError):
    code = "too_many_requests"


class Unavailable(SignoffError):
    code = "unavailable"


# --- requests that are wrong in themselves -----------------------------------------------------------


class InvalidRequest(Invalid):
    code = "invalid_request"


class MalformedJson(Invalid):
    """Bytes that are not one strict JSON value: not UTF-8, cut off, a key twice, a number that is not finite."""

    code = "malformed_json"


class IdempotencyMismatch(Invalid):
    """The key was used before with another body."""

    code = "idempotency_mismatch"


class PolicyInvalid(Invalid):
    """A policy that can't be loaded; `details["problems"]` lists what is wrong and where."""

    code = "policy_invalid"


class AgentInvalid(Invalid):
    """An agent that can't be loaded."""

    code = "agent_invalid"


class SettingsInvalid(Invalid):
    code = "settings_invalid"


class WrongDecisionCount(Invalid):
    code = "wrong_decision_count"


class UnknownItem(Invalid):
    """A decision names an item or tool call that the review does not have."""

    code = "unknown_item"


class AmbiguousItem(Invalid):
    """Two items of the review carry the same tool call id."""

    code = "ambiguous_item"


class DuplicateDecision(Invalid):
    """One request decides one item twice."""

    code = "duplicate_decision"


class DecisionNotAllowed(Invalid):
    code = "decision_not_allowed"


class EditIncomplete(Invalid):
    """An edit without a readable `edited_action`."""

    code = "edit_incomplete"


class EditChangesTool(Invalid):
    code = "edit_changes_tool"


class EditOutsideSchema(Invalid):
    code = "edit_outside_schema"


class EditDenied(Invalid):
    """The policy denies the edited call."""

    code = "edit_denied"


class MessageRequired(Invalid):
    code = "message_required"


class DelegationRefused(Invalid):
    """A delegation from or to somebody who can't have one; the message says why."""

    code = "delegation_refused"


class ExportUnreadable(Invalid):
    """A provider's export can't be read; nothing of it was used."""

    code = "export_unreadable"


class UnreadableArguments(Invalid):
    """Arguments outside the canonical form: not finite, not text that can be stored, not JSON."""

    code = "unreadable_arguments"


class PlanTooLarge(Invalid):
    """A replay of more than was allowed; `details["acts"]` is how many it would do, `details["limit"]` how many may."""

    code = "plan_too_large"


class PlanAltered(Invalid):
    """Not a plan as it was made."""

    code = "plan_altered"


class AddressRefused(Invalid):
    """Where a subscription may not send to."""

    code = "address_refused"


# --- who -----------------------------------------------------------------------------------------------


class TokenInvalid(Unauthenticated):
    code = "token_invalid"


class SignatureInvalid(Unauthenticated):
    code = "signature_invalid"


class RightMissing(Forbidden):
    code = "right_missing"


class NotAReviewer(Forbidden):
    code = "not_a_reviewer"


class SubmitterMayNotDecide(Forbidden):
    """Four eyes: who submitted the job does not decide about it."""

    code = "submitter_may_not_decide"


class EndpointMayNotSpeak(Forbidden):
    """The endpoint does not speak for the reviewer that its envelope names."""

    code = "endpoint_may_not_speak"


class PersonNeeded(Forbidden):
    """Only a person may say this, not a service."""

    code = "person_needed"


class SecondPersonNeeded(Forbidden):
    """Who found it out does not confirm it."""

    code = "second_person_needed"


class BeyondAuthority(Forbidden):
    """A reviewer, whose grants don't cover this call."""

    code = "beyond_authority"


# --- what is not there ---------------------------------------------------------------------------------


class JobNotFound(NotFound):
    code = "job_not_found"


class ThreadNotFound(NotFound):
    code = "thread_not_found"


class ReviewNotFound(NotFound):
    code = "review_not_found"


class EffectNotFound(NotFound):
    code = "effect_not_found"


class SettlementNotFound(NotFound):
    """Nothing that was found out about the effect waits to be confirmed."""

    code = "settlement_not_found"


class AlarmNotFound(NotFound):
    code = "alarm_not_found"


class CheckpointNotFound(NotFound):
    code = "checkpoint_not_found"


class EndpointNotFound(NotFound):
    code = "endpoint_not_found"


class PrincipalNotFound(NotFound):
    code = "principal_not_found"


class TokenNotFound(NotFound):
    code = "token_not_found"


class AgentNotFound(NotFound):
    code = "agent_not_found"


class ToolNotFound(NotFound):
    """No rule of the agent's policy is about the tool."""

    code = "tool_not_found"


class GrantNotFound(NotFound):
    code = "grant_not_found"


class StandingNotFound(NotFound):
    code = "standing_approval_not_found"


class SubscriptionNotFound(NotFound):
    code = "subscription_not_found"


class SendingNotFound(NotFound):
    code = "sending_not_found"


class DeadLetterNotFound(NotFound):
    code = "dead_letter_not_found"


class PauseNotFound(NotFound):
    code = "pause_not_found"


class ProviderNotFound(NotFound):
    """Nothing is known of it: it has no limits, and has never failed."""

    code = "provider_not_found"


class WorkerNotFound(NotFound):
    code = "worker_not_found"


# --- right in form, but not now ------------------------------------------------------------------------


class ReviewPending(Conflict):
    code = "review_pending"


class AlreadyDecided(Conflict):
    """Another decision won; `details["winner"]` is it."""

    code = "already_decided"


class ReviewExpired(Conflict):
    code = "review_expired"


class ReviewCancelled(Conflict):
    code = "review_cancelled"


class ReviewSuperseded(Conflict):
    code = "review_superseded"


class ReviewClaimed(Conflict):
    """Somebody else has claimed the review; `details` say who and until when."""

    code = "review_claimed"


class StaleDecision(Conflict):
    """The call was amended since the reviewer saw it; `details["changed"]` is what it is now."""

    code = "stale_decision"


class EarlyDecision(Conflict):
    """A decision on a revision that does not exist yet."""

    code = "early_decision"


class JobEnded(Conflict):
    code = "job_ended"


class JobNotFailed(Conflict):
    """Only a failed job, or one that waits for an operator, can be retried."""

    code = "job_not_failed"


class JobNotRepairable(Conflict):
    """There is nothing that a repair could ask again."""

    code = "job_not_repairable"


class IdempotencyInProgress(Conflict):
    code = "idempotency_in_progress"


class EffectNotInDoubt(Conflict):
    code = "effect_not_in_doubt"


class CarriedOutElsewhere(Conflict):
    """The same call is carried out in another form, in a fork of its thread or where that was forked from."""

    code = "carried_out_elsewhere"


class EffectNotReplayable(Conflict):
    code = "effect_not_replayable"


class EffectNotProbeable(Conflict):
    """Its provider can't be asked what became of it."""

    code = "effect_not_probeable"


class EffectNotRepeatable(Conflict):
    """Only what has succeeded can be undone or executed again, and not what another request does already."""

    code = "effect_not_repeatable"


class CompensationUndeclared(Conflict):
    """Its tool does not say what undoes it, or what it needs for that is not known."""

    code = "compensation_undeclared"


class CallDenied(Conflict):
    """The policy denies the call, or names nobody who could be asked about it."""

    code = "call_denied"


class SettlementOpen(Conflict):
    """What somebody found out about the effect waits for a second person; `details["settlement_id"]` is it."""

    code = "settlement_open"


class SettlementOutdated(Conflict):
    """The effect has moved since, or who found it out may no longer settle effects: nobody can confirm it."""

    code = "settlement_outdated"


class AlarmAcknowledged(Conflict):
    code = "alarm_acknowledged"


class PauseEnded(Conflict):
    code = "pause_ended"


class PlanOutdated(Conflict):
    """The world has changed since the plan was made; `details["entries"]` are where."""

    code = "plan_outdated"


class EffectPurged(Conflict):
    """Its arguments and its result are no longer kept."""

    code = "effect_purged"


class PrincipalExists(Conflict):
    code = "principal_exists"


class PrincipalRevoked(Conflict):
    """Who is revoked stays so: nothing is given to them any more."""

    code = "principal_revoked"


class EndpointExists(Conflict):
    code = "endpoint_exists"


class DeliveryMismatch(Conflict):
    """The delivery id came before with another body."""

    code = "delivery_mismatch"


class AgentMismatch(Conflict):
    """The thread belongs to another agent."""

    code = "agent_mismatch"


# --- too often -------------------------------------------------------------------------------------------


class RateLimited(TooManyRequests):
    """More requests than are allowed to this caller; `details["retry_after_seconds"]` says when there is room."""

    code = "rate_limited"


class SubscriptionExists(Conflict):
    code = "subscription_exists"


class SubscriptionDisabled(Conflict):
    """Nothing is sent there; enable it first."""

    code = "subscription_disabled"


class DeadLetterSettled(Conflict):
    """It was requeued or discarded already."""

    code = "dead_letter_settled"


class DeadLetterNotRequeueable(Conflict):
    """Nothing that is left of it could be taken: its sender has to send it again."""

    code = "dead_letter_not_requeueable"


# --- away ------------------------------------------------------------------------------------------------


class StoreUnavailable(Unavailable):
    code = "store_unavailable"


class BrokerUnavailable(Unavailable):
    """Redis is away, or refuses what it is asked; what was to be sent or taken waits."""

    code = "broker_unavailable"


class SchemaOutdated(Unavailable):
    """The database has not been migrated to what this version needs."""

    code = "schema_outdated"


class DatabaseRestored(Unavailable):
    """A backup was put in the database's place, and nobody has said so: effects of the lost time could happen again."""

    code = "database_restored"


class EmbeddedServerFailed(Unavailable):
    """An embedded server can't be started or has died; the message ends with the tail of its log."""

    code = "embedded_server_failed"


class AddressUnavailable(Unavailable):
    """Nothing can listen on the address that was asked for."""

    code = "address_unavailable"


class ProcessFailed(Unavailable):
    """A process of `signoff up` has ended by itself, or did not get ready; the message ends with its log's tail."""

    code = "process_failed"


# --- inside a run -----------------------------------------------------------------------------------------


class LeaseLost(SignoffError):
    """Another worker has the job, or it has ended; nothing more may be written for it."""

    code = "lease_lost"


class DigestMismatch(SignoffError):
    """One operation id with two different calls: never run, never served."""

    code = "digest_mismatch"


class CannotResume(SignoffError):
    """The thread's state does not fit the job; a person has to look."""

    code = "cannot_resume"
