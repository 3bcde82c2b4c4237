"""The rules of Signoff: no I/O, no framework, no clock. An agent author takes the policy from here."""

from signoff.domain.policy import AtDeadline, DecisionType, Judgement, Policy, Rule, Rung, Verdict, allow, deny, review
from signoff.domain.policy_file import parse_policy

__all__ = [
    "AtDeadline",
    "DecisionType",
    "Judgement",
    "Policy",
    "Rule",
    "Rung",
    "Verdict",
    "allow",
    "deny",
    "parse_policy",
    "review",
]
