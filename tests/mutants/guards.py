"""The guards that must not be missed: each with the edit that takes it out, and the tests that have to notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """`text` stands once in `file`; with `without` in its place, some test in `tests` must fail."""

    name: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]


GUARDS = (
    Guard(
        "quorum: several people",
        "domain/judging.py",
        "len(item.voices) + 1 >= item.terms.approvals",
        "True",
        ("tests/unit/test_reviews_several.py",),
    ),
    Guard(
        "quorum: nobody counts twice",
        "domain/judging.py",
        "return is_mine and (decision.revision == item.revision or decision in item.voices)",
        "return False",
        ("tests/unit/test_reviews_several.py",),
    ),
    Guard(
        "four eyes",
        "domain/authority.py",
        "if call.is_of(who.name) and (own or who.delegations):",
        "if False:",
        ("tests/unit/test_reviews_several.py",),
    ),
    Guard(
        "four eyes: the delegator",
        "domain/authority.py",
        "able and not call.is_of(delegator.name) and delegation",
        "able and delegation",
        ("tests/unit/test_authority.py",),
    ),
    Guard(
        "limits of authority",
        "domain/authority.py",
        "return not who.limited or any(grant.covers(call, now) for grant in who.grants)",
        "return True",
        ("tests/unit/test_reviews_several.py",),
    ),
    Guard(
        "signature",
        "infra/webhooks/inbound.py",
        "verify([secret.text for secret in secrets], headers, body, now=now)",
        "0",
        ("tests/integration/test_webhooks_decisions.py",),
    ),
    Guard(
        "the endpoint's voice",
        "infra/webhooks/inbound.py",
        "        require_voice(sender, who)\n",
        "",
        ("tests/integration/test_endpoints_doors.py",),
    ),
    Guard(
        "a delivery id counts once",
        "infra/postgres/deliveries.py",
        'if row["body_digest"] != body_digest:',
        "if False:",
        ("tests/integration/test_webhooks_decisions.py",),
    ),
    Guard(
        "deadline",
        "domain/judging.py",
        "late = item.status is ItemStatus.open and item.is_late(self._now)",
        "late = False",
        ("tests/unit/test_reviews.py",),
    ),
    Guard(
        "one winner: compare and set",
        "infra/postgres/reviews.py",
        "WHERE id = %(item_id)s AND status = 'open' AND revision = %(revision)s RETURNING id)",
        "WHERE id = %(item_id)s RETURNING id)",
        ("tests/integration/test_use_cases_deciding.py",),
    ),
    Guard(
        "the call that was seen",
        "domain/judging.py",
        "    _require_current(item, answer)\n",
        "",
        ("tests/unit/test_reviews_several.py",),
    ),
    Guard(
        "an edit is judged by the policy",
        "domain/amending.py",
        "if judgement.verdict is Verdict.deny:",
        "if False:",
        ("tests/unit/test_reviews.py",),
    ),
    Guard(
        "an edit by somebody who may not allow it does not count",
        "domain/amending.py",
        "counts=authority is not None,",
        "counts=True,",
        ("tests/unit/test_reviews_several.py",),
    ),
    Guard(
        "an edit keeps the tool",
        "domain/amending.py",
        "if not allowed or not registered.knows(tool):",
        "if False:",
        ("tests/unit/test_reviews.py",),
    ),
    Guard(
        "at dispatch: exactly this call",
        "workers/approving.py",
        "if (vote.operation_id, vote.digest) == (case.operation_id, case.digest)]",
        "]",
        ("tests/unit/test_approving.py",),
    ),
    Guard(
        "at dispatch: as many people as it needs",
        "workers/approving.py",
        "if _voices(good) >= needed:",
        "if good:",
        ("tests/unit/test_approving.py",),
    ),
    Guard(
        "at dispatch: nobody counts twice",
        "workers/approving.py",
        "        if spoken.isdisjoint(vote.authority.people):\n            count += 1\n",
        "        count += 1\n",
        ("tests/unit/test_approving.py",),
    ),
    Guard(
        "at dispatch: who decided may still decide",
        "workers/approving.py",
        "if not still_holds(vote.authority, vote.who, approval.reviewers, case.facts, case.now):",
        "if False:",
        ("tests/unit/test_approving.py",),
    ),
    Guard(
        "at dispatch: those whom the policy would ask now",
        "workers/approving.py",
        "return asked and (ends is None or case.now <= ends)",
        "return ends is None or case.now <= ends",
        ("tests/unit/test_approving.py",),
    ),
    Guard(
        "at dispatch: the age of an approval",
        "workers/approving.py",
        "if ends is not None and case.now > ends else None",
        "if False else None",
        ("tests/unit/test_approving.py",),
    ),
    Guard(
        "at dispatch: what the policy denies now",
        "workers/approving.py",
        """    if case.judgement.verdict is Verdict.deny:
        return _denied(case.judgement)
    votes =""",
        "    votes =",
        ("tests/unit/test_approving.py",),
    ),
    Guard(
        "by time only what reads",
        "workers/approving.py",
        "return expired and said and says and case.effect_class is EffectClass.read",
        "return expired and said and says",
        ("tests/unit/test_approving.py",),
    ),
    Guard(
        "hidden arguments",
        "domain/review_view.py",
        "return dict(args) if reveal else masked(args, item.terms.hidden)",
        "return dict(args)",
        ("tests/unit/test_reviews_several.py",),
    ),
    Guard(
        "a standing approval stands on its maker's authority",
        "domain/standing.py",
        "still_holds(",
        "(lambda *_: True)(",
        ("tests/unit/test_standing.py",),
    ),
    Guard(
        "an edit out of sight of the rules needs another person",
        "domain/amending.py",
        " or not judgement.evaluated",
        "",
        ("tests/unit/test_authority_attacks.py",),
    ),
    Guard(
        "a standing refusal stops what was approved",
        "workers/allowing.py",
        "return answer if settled else await self._unless_refused(tx, case, answer)",
        "return answer",
        ("tests/integration/test_authority_attacks.py",),
    ),
    Guard(
        "a call that somebody decided about never runs by a rule",
        "infra/postgres/effects.py",
        """
        AND NOT EXISTS (SELECT FROM signoff.reviews r JOIN signoff.items i ON i.review_id = r.id
            JOIN signoff.decisions d ON d.item_id = i.id
            WHERE r.job_id = %(job_id)s AND d.operation_id = %(operation_id)s))
""",
        ")\n",
        ("tests/integration/test_authority_attacks.py",),
    ),
    Guard(
        "a delegate sees only what its delegator may decide",
        "domain/authority.py",
        " for delegation in held if is_reviewer(delegation.delegator)]",
        " for delegation in held]",
        ("tests/unit/test_authority_attacks.py",),
    ),
    Guard(
        "the newest policy",
        "workers/executor.py",
        "if not self._agent.has_policy(fenced.policy_digest):",
        "if False:",
        ("tests/integration/test_policies_tightened.py",),
    ),
)
