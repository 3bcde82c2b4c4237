"""The rules of Signoff: no I/O, no framework, no clock. An agent author takes the policy from here."""

from signoff.domain.policy import DecisionType, Judgement, Policy, Rule, Verdict, allow, deny, review
from signoff.domain.policy_file import parse_policy

__all__ = ["DecisionType", "Judgement", "Policy", "Rule", "Verdict", "allow", "deny", "parse_policy", "review"]
