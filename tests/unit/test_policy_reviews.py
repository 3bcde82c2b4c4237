"""What a rule says of a review: how many, whom, when, what is hidden and what is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff.domain import AtDeadline, Judgement, Policy, Rung, Verdict, allow, review
from signoff.domain.effects import EffectClass
from signoff.domain.errors import PolicyInvalid

JOB = {"id": "1", "submitted_by": "shop", "labels": {"region": "north"}}


def full() -> Policy:
    return Policy(
        [
            review(
                "pay",
                name="pay",
                reviewers=["finance", "@dana"],
                approvals=2,
                deadline_seconds=100,
                reminders_seconds=[10, 30],
                escalation=[Rung(20, ("leads",)), Rung(40, ("finance", "@chris"), replace=True)],
                at_deadline="escalate",
                escalate_to=["directors"],
                description="Pay {args.amount} from {args.card.number}",
                hide=["card.number"],
                show=["job.labels.region", "unseen.customer", "args.card", "destination", "unseen.none"],
                tool_changes=["pay_*"],
                edits_need_another=True,
            )
        ]
    )


def judge(policy: Policy, tool: str = "pay", **args: Any) -> Judgement:
    return policy.judge(tool, args, job=JOB, environment="test", destination="bank", unseen={"customer": "C-1"})


def test_all_of_it_is_in_the_judgement() -> None:
    found = judge(full(), amount=5, card={"number": "4111", "holder": "Dana"})
    assert found == Judgement(
        verdict=Verdict.review,
        rule="pay",
        policy_digest=full().digest,
        reason="'pay' says review",
        reviewers=("finance", "@dana"),
        approvals=2,
        deadline_seconds=100.0,
        ladder=(Rung(10.0), Rung(20.0, ("leads",)), Rung(30.0), Rung(40.0, ("finance", "@chris"), True)),
        at_deadline=AtDeadline.escalate,
        escalate_to=("directors",),
        description="Pay 5 from [hidden]",
        hidden=("card.number",),
        shown={
            "job.labels.region": "north",
            "unseen.customer": "C-1",
            "args.card": {"number": "[hidden]", "holder": "Dana"},
            "destination": "bank",
            "unseen.none": "(missing)",
        },
        tool_changes=("pay_*",),
        edits_need_another=True,
    )
    assert found.all_reviewers == ("finance", "@dana", "leads", "@chris", "directors")


def test_the_plain_form_keeps_all_of_it() -> None:
    stored = json.loads(json.dumps(full().to_dict()))
    assert Policy.from_dict(stored) == full()
    assert Policy.from_dict(stored).digest == full().digest
    assert judge(Policy.from_dict(stored), amount=5) == judge(full(), amount=5)


def test_what_is_left_at_its_default_is_not_in_the_plain_form() -> None:
    plain = Policy([review("a", reviewers=["r"]), allow("b")]).to_dict()["rules"]
    decisions = ["approve", "edit", "reject", "respond"]
    assert plain == [
        {"tool": "a", "verdict": "review", "reviewers": ["r"], "decisions": decisions},
        {"tool": "b", "verdict": "allow", "decisions": decisions},
    ]
    same = review("a", reviewers=["r"], approvals=1, deadline_seconds=5, at_deadline="reject", escalation=[], hide=())
    assert Policy([same]).digest == Policy([review("a", reviewers=["r"], deadline_seconds=5)]).digest


CHANGES: list[dict[str, Any]] = [
    {"approvals": 2},
    {"reminders_seconds": [10]},
    {"escalation": [Rung(10, ("x",))]},
    {"at_deadline": "fail"},
    {"at_deadline": "escalate", "escalate_to": ["x"]},
    {"hide": ["x"]},
    {"show": ["tool"]},
    {"tool_changes": ["x"]},
    {"edits_need_another": True},
]


def test_each_of_it_changes_the_digest() -> None:
    digests = {
        Policy([review("a", reviewers=["r"], deadline_seconds=50, **change)]).digest for change in [{}, *CHANGES]
    }
    assert len(digests) == len(CHANGES) + 1


def test_what_can_not_be_shown_is_said_to_be_so() -> None:
    policy = Policy([review("a", reviewers=["r"], show=["unseen"], description="{unseen.x}")])
    found = policy.judge("a", {}, job=JOB, environment="", unseen={"x": object()})
    assert found.shown == {"unseen": "(can't be shown: x: a object is not JSON)"}
    assert found.description == "(a object that can't be shown)"


def test_time_approves_nothing_whose_condition_has_no_answer() -> None:
    rule = review("a", when="args.x > 1", reviewers=["r"], deadline_seconds=5, at_deadline="approve")
    assert judge(Policy([rule]), "a", x=2).at_deadline is AtDeadline.approve
    assert judge(Policy([rule]), "a").at_deadline is AtDeadline.reject


def test_without_an_answer_all_that_any_rule_for_the_tool_hides_is_hidden() -> None:
    rules = [
        allow("pay", when="args.amount < 5 && args.card.matches(args.card)", description="{args.card}"),
        review("p*", reviewers=["r"], hide=["card"]),
        review("other", reviewers=["r"], hide=["amount"]),
    ]
    policy = Policy(rules, ["leads"])
    found = judge(policy, amount=1, card="(4111")
    assert (found.verdict, found.hidden, found.description) == (Verdict.review, ("card",), "[hidden]")
    assert "4111" not in found.reason
    assert "'amount' is missing" in judge(policy, card="4111").reason
    # The reason does quote where nothing is hidden.
    assert "(4111" in judge(Policy(rules[:1], ["leads"]), amount=1, card="(4111").reason


def test_a_name_that_a_value_was_looked_up_by_is_not_quoted_either() -> None:
    policy = Policy([review("pay", when="args.names[args.card] == 1", reviewers=["r"], hide=["card"])])
    assert "4111" not in judge(policy, names={}, card="4111").reason


CLASSES = {"lookup": EffectClass.read, "read_all": EffectClass.read, "pay": EffectClass.idempotent}


def by_time(tool: str) -> Policy:
    return Policy([allow("x"), review(tool, reviewers=["r"], deadline_seconds=5, at_deadline="approve")])


@pytest.mark.parametrize("tool", ["lookup", "read_*", "lookup*"])
def test_time_may_approve_what_only_reads(tool: str) -> None:
    by_time(tool).check_classes(CLASSES)


@pytest.mark.parametrize("tool", ["pay", "p*", "*"])
def test_time_may_not_approve_what_could_do_more(tool: str) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        by_time(tool).check_classes(CLASSES)
    message = "at_deadline: 'approve' is for tools that only read, and 'pay' is idempotent"
    assert caught.value.details["problems"] == [{"where": f"rule 2 ({tool})", "message": message}]


def test_other_ends_of_a_deadline_are_for_any_tool() -> None:
    rules = [review("pay", reviewers=["r"], deadline_seconds=5, at_deadline="fail")]
    Policy(rules).check_classes(CLASSES)
    Policy(rules).check_classes({"pay": "opaque"})  # type: ignore[dict-item]


def test_an_edit_can_change_to_tools_that_exist_alone() -> None:
    policy = Policy([review("pay", reviewers=["r"], tool_changes=["loockup", "read_*"])])
    with pytest.raises(PolicyInvalid, match="tool_changes: no tool is called 'loockup'; did you mean 'lookup'"):
        policy.check_tools(CLASSES)
