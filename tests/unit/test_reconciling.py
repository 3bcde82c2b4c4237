"""One operation on both sides: what its provider says, and what the ledger says."""

from __future__ import annotations

import shlex

import pytest

from signoff.domain.effects import EffectStatus
from signoff.domain.reconciling import Difference, Entry, Reconciliation, Record, compare

S, D = EffectStatus, Difference
OPERATION = "op_" + "a" * 40


def entry(status: EffectStatus, reference: str | None = None) -> Entry:
    return Entry(OPERATION, "pay", status, reference)


def row(line: int = 2, reference: str | None = "p-1", *, generation: int = 0, applied: bool = True) -> Record:
    return Record(line, f"{OPERATION}.{generation}", reference, applied)


@pytest.mark.parametrize(
    ("status", "records", "difference", "settles", "contradicts"),
    [
        (S.succeeded, [row()], D.agrees, False, False),
        (S.succeeded, [row(), row(3)], D.agrees, False, False),  # two rows about the same thing
        (S.succeeded, [row(), row(3, "p-2")], D.applied_twice, False, False),
        (S.succeeded, [row(), row(3, "p-2", generation=1)], D.applied_twice, False, False),
        (S.succeeded, [row(reference=None), row(3, None)], D.applied_twice, False, False),
        (S.succeeded, [], D.recorded_not_applied, False, True),
        (S.succeeded, [row(applied=False)], D.recorded_not_applied, False, True),
        (S.succeeded, [row(applied=False), row(3, generation=1)], D.agrees, False, False),
        (S.in_doubt, [row()], D.applied_not_recorded, True, False),
        (S.in_doubt, [row(applied=False)], D.open, False, False),
        (S.in_doubt, [], D.open, False, False),
        (S.failed, [row()], D.applied_not_recorded, False, True),
        (S.cancelled, [row()], D.applied_not_recorded, False, True),
        (S.dispatched, [row()], D.applied_not_recorded, False, False),
        (S.failed, [], D.agrees, False, False),
        (S.failed, [row(applied=False)], D.agrees, False, False),
    ],
)
def test_how_they_differ(
    status: EffectStatus, records: list[Record], difference: Difference, settles: bool, contradicts: bool
) -> None:
    found = compare(entry(status), records)
    assert (found.difference, found.settles, found.contradicts) == (difference, settles, contradicts)


def test_another_reference_than_the_ledger_has_is_another_time() -> None:
    assert compare(entry(S.succeeded, "p-9"), [row()]).difference is D.applied_twice
    assert compare(entry(S.succeeded, "p-1"), [row()]).difference is D.agrees


def test_what_the_ledger_does_not_know() -> None:
    assert compare(None, [Record(2, "order-7", "p-1")]).difference is D.unknown_to_ledger
    assert compare(None, [Record(2, "order-7", "p-1", applied=False)]).difference is D.agrees


@pytest.mark.parametrize("key", [OPERATION, f"{OPERATION}.0", f"{OPERATION}.12"])
def test_our_keys_are_known_with_and_without_a_generation(key: str) -> None:
    assert Record(1, key).operation_id == OPERATION


@pytest.mark.parametrize("key", ["order-7", f"{OPERATION}.x", f"{OPERATION}x", OPERATION.upper(), f" {OPERATION}"])
def test_others_are_not(key: str) -> None:
    assert Record(1, key).operation_id is None


def test_a_reference_that_a_shell_would_run_is_quoted() -> None:
    command = compare(entry(S.in_doubt), [row(reference="$(reboot)")]).command()
    assert command is not None
    assert shlex.split(command)[6] == "$(reboot)"


def test_those_that_agree_or_are_open_are_no_difference() -> None:
    found = Reconciliation()
    found.add(compare(entry(S.succeeded), [row()]))
    found.add(compare(entry(S.in_doubt), []))
    assert found.ok
    found.add(compare(entry(S.in_doubt), [row()]))
    assert not found.ok
    assert [one.references for one in found.settling] == [("p-1",)]
