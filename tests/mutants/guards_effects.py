"""The guards of effects, of what operators do, and of restored backups."""

from __future__ import annotations

from tests.mutants.guards import Guard

CLASSES = ("tests/integration/test_effect_classes.py",)
EXECUTOR = ("tests/integration/test_executor_guards.py",)
HELD_BACK = ("tests/integration/test_holding_back.py",)
OPERATORS = ("tests/integration/test_operator_acts.py",)
RESTORED = ("tests/faults/test_r28_restored_backup.py",)
SETTLING = ("tests/integration/test_settling.py",)
UNSAID = ("tests/faults/test_r28_unsaid_restore.py", "tests/unit/test_going_back.py")

EFFECT_GUARDS = (
    Guard(
        "fence: of a run",
        "infra/postgres/jobs.py",
        "FROM signoff.jobs WHERE id = %s AND fence = %s AND status = 'running' FOR NO KEY UPDATE",
        "FROM signoff.jobs WHERE id = %s AND %s::bigint IS NOT NULL AND status = 'running' FOR NO KEY UPDATE",
        EXECUTOR,
    ),
    Guard(
        "fence: the lease must surely hold",
        "workers/executor.py",
        "if not self._run.guard.surely_holds():",
        "if False:",
        EXECUTOR,
    ),
    Guard(
        "dispatch mark: what was sent is not sent from there again",
        "infra/postgres/effects.py",
        "WHERE operation_id = %(operation_id)s AND status = ANY(%(sources)s) AND digest = %(digest)s",
        "WHERE operation_id = %(operation_id)s AND %(sources)s::text[] IS NOT NULL AND digest = %(digest)s",
        ("tests/integration/test_dispatch_mark.py",),
    ),
    Guard(
        "dispatch mark: a lost worker leaves doubt",
        "domain/effects.py",
        """    return [Step(S.in_doubt, doubt=True, reason="the worker was lost after the dispatch")]""",
        """    return [Step(S.retry_wait, doubt=False, reason="the worker was lost after the dispatch")]""",
        ("tests/unit/test_effects_machine.py",),
    ),
    Guard(
        "digest: of the call that is served or sent",
        "workers/preparing.py",
        "    if not (same and is_whole(effect)):",
        "    if False:",
        EXECUTOR,
    ),
    Guard(
        "digest: at the dispatch mark",
        "infra/postgres/effects.py",
        "AND status = ANY(%(sources)s) AND digest = %(digest)s",
        "AND status = ANY(%(sources)s) AND %(digest)s::text IS NOT NULL",
        ("tests/integration/test_dispatch_mark.py",),
    ),
    Guard(
        "window: its margin",
        "domain/effects.py",
        "effect.first_dispatched_at + terms.window - terms.margin",
        "effect.first_dispatched_at + terms.window",
        ("tests/unit/test_keys_and_quiet_periods.py",),
    ),
    Guard(
        "window: nothing is repeated when it is over",
        "domain/effects.py",
        "if effect.doubt_since is None or may_repeat_in_doubt(effect, terms, now):",
        "if True:",
        EXECUTOR,
    ),
    Guard(
        "quiet period",
        "domain/effects.py",
        "if found is Found.unknown or now < quiet_until(effect, terms):",
        "if found is Found.unknown:",
        ("tests/unit/test_keys_and_quiet_periods.py",),
    ),
    Guard(
        "doubt: no state that denies it",
        "infra/postgres/migrations/0001_main.sql",
        "    CHECK (doubt_since IS NULL OR status NOT IN ('failed', 'dead', 'cancelled', 'revoked', 'planned')),\n",
        "",
        ("tests/integration/test_state_tables_effects.py",),
    ),
    Guard(
        "evidence: an alarm",
        "workers/evidence.py",
        "if found.alarm is not None and not await _is_harmless(tx, effect):",
        "if False:",
        CLASSES,
    ),
    Guard(
        "evidence: it settles doubt",
        "domain/evidence.py",
        "    if effect.status is S.in_doubt:\n        return (success,)\n",
        "",
        ("tests/unit/test_evidence.py",),
    ),
    Guard(
        "precheck",
        "workers/preparing.py",
        "if self._has_changed(examined):",
        "if False:",
        CLASSES,
    ),
    Guard(
        "pause",
        "workers/holding_back.py",
        "if pause := await pause_over(tx.conn, agent, effect.tool):",
        "if pause := None:",
        HELD_BACK,
    ),
    Guard(
        "circuit",
        "domain/holding.py",
        "if now >= circuit.open_until else None",
        "if True else None",
        HELD_BACK,
    ),
    Guard(
        "replay: a plan that the world has outrun",
        "domain/replaying.py",
        "if changed and not skip_outdated:",
        "if False:",
        ("tests/integration/test_replays.py",),
    ),
    Guard(
        "request id: acts once",
        "domain/operator_acts.py",
        "    if known is not None:\n        return Done(known.outcome, repeated=True)\n",
        "",
        OPERATORS,
    ),
    Guard(
        "request id: with one request alone",
        "domain/operator_acts.py",
        "if known is not None and known.digest != digest:",
        "if False:",
        OPERATORS,
    ),
    Guard(
        "two people: the second is another",
        "domain/settling.py",
        "if waiting.proposed_by == who.name:",
        "if False:",
        SETTLING,
    ),
    Guard(
        "two people: where the policy calls it high-risk",
        "domain/operating.py",
        "if environment is not None and await is_high_risk(tx, effect, job, environment):",
        "if False:",
        SETTLING,
    ),
    Guard(
        "restored: what was to be sent",
        "infra/postgres/restoring.py",
        """    await _doubt(conn, {**facts, "message": message(since, at)})\n""",
        "",
        RESTORED,
    ),
    Guard(
        "restored: what is decided later",
        "infra/postgres/restoring.py",
        "    await conn.execute(GUARD)\n",
        "",
        RESTORED,
    ),
    Guard(
        "restored: an edit is another call",
        "infra/postgres/migrations/0012_restoring.sql",
        "WHERE d.id = NEW.decision_id AND i.operation_id = NEW.operation_id AND v.created_at < lost.until",
        "WHERE d.id = NEW.decision_id AND v.created_at < lost.until",
        RESTORED,
    ),
    Guard(
        "restored: workers that outlived it",
        "infra/postgres/restoring.py",
        "SET fence = fence + {FENCES}, ",
        "SET ",
        RESTORED,
    ),
    Guard(
        "restored: it is noticed",
        "domain/going_back.py",
        "(seen.seal > 0 and hash_there != seen.hash)",
        "False",
        UNSAID,
    ),
    Guard(
        "restored: nothing leaves until it is said",
        "infra/restore_watch.py",
        """                await conn.execute(PAUSE, {"id": uuid4(), "reason": _words(seen), "watch": WATCH})\n""",
        "",
        UNSAID,
    ),
    Guard(
        "schema: a database that takes no code of this age",
        "infra/postgres/schema.py",
        "self.oldest is not None and self.oldest <= REVISION",
        "True",
        ("tests/integration/test_migrate.py",),
    ),
    Guard(
        "reconcile: a file is read whole or not at all",
        "infra/reconcile/exports.py",
        "    if bad:\n",
        "    if False:\n",
        ("tests/unit/test_exports.py",),
    ),
)
