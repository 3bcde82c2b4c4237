"""How persons, grants and delegations look in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from signoff.infra.cli.output import moment, print_facts, print_line, print_table


def print_people(people: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        (
            one["name"],
            ", ".join(one["groups"]),
            ", ".join(one["rights"]),
            "yes" if one["limited"] else "",
            moment(one["revoked_at"]),
        )
        for one in people
    ]
    print_table(("name", "groups", "rights", "limited", "revoked"), rows)


def print_person(person: Mapping[str, Any]) -> None:
    print_facts(
        {
            "name": person["name"],
            "groups": ", ".join(person["groups"]) or "none",
            "rights": ", ".join(person["rights"]) or "none",
            "limited": _limit(person),
            "revoked": moment(person["revoked_at"]),
        }
    )
    _print_grants("grants", person["grants"])
    _print_grants("delegations given", person["delegations_given"], "to")
    _print_grants("delegations held", person["delegations_held"], "from")


def _limit(person: Mapping[str, Any]) -> str:
    if not person["limited"]:
        return "no"
    active = sum(grant["state"] == "active" for grant in person["grants"])
    covered = "1 grant covers" if active == 1 else f"{active} grants cover"
    return f"yes, to what {covered}" if active else "yes, and no grant is active: decides nothing"


def _print_grants(title: str, grants: Sequence[Mapping[str, Any]], *others: str) -> None:
    """`others` are the columns that name the other person."""
    if grants:
        print_line(f"\n{title}")
        print_table(
            ("id", *others, "tools", "when", "until", "state", "given by"), [_row(one, others) for one in grants]
        )


def _row(grant: Mapping[str, Any], others: Sequence[str]) -> Sequence[object]:
    what = (", ".join(grant["tools"]), grant["when"], moment(grant["expires_at"]))
    return (grant["id"], *(grant[name] for name in others), *what, grant["state"], grant["created_by"])
