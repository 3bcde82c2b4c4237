"""Calls written down with the verdict that a policy should give: the tests of a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from signoff.domain.canonical import canonical_json
from signoff.domain.errors import InvalidRequest, UnreadableArguments
from signoff.domain.policy import Judgement, Policy
from signoff.domain.verdicts import Verdict
from signoff.domain.wording import did_you_mean, unknown_word

JOB_KEYS = ("agent", "id", "labels", "submitted_by", "thread")


@dataclass(frozen=True, slots=True)
class PolicyCall:
    """What a policy looks at: a call, its job as far as it is known, and the environment."""

    tool: str
    args: Mapping[str, Any]
    job: Mapping[str, Any]
    environment: str
    destination: Any = None
    unseen: Mapping[str, Any] = field(default_factory=dict)

    def judge(self, policy: Policy) -> Judgement:
        return policy.judge(
            self.tool,
            self.args,
            job=self.job,
            environment=self.environment,
            destination=self.destination,
            unseen=self.unseen,
        )


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """A call, the verdict that it should get, and by which rule, how many and whom, if that matters."""

    name: str
    call: PolicyCall
    verdict: Verdict
    rule: str | None = None
    approvals: int | None = None
    reviewers: tuple[str, ...] | None = None

    def wrong(self, judgement: Judgement) -> Mapping[str, tuple[Any, Any]]:
        """What was expected and what the judgement says instead, by name; nothing if it is as it should be.

        Reviewers count in any order, and those of the first request alone.
        """
        asked = judgement.verdict is Verdict.review
        pairs: dict[str, tuple[Any, Any]] = {
            "verdict": (self.verdict, judgement.verdict),
            "rule": (self.rule, judgement.rule),
            "approvals": (self.approvals, judgement.approvals if asked else 0),
            "reviewers": (_in_order(self.reviewers), _in_order(judgement.reviewers if asked else ())),
        }
        return {key: (wanted, got) for key, (wanted, got) in pairs.items() if wanted is not None and wanted != got}


class Failure(NamedTuple):
    """A case, and what the policy says instead."""

    case: PolicyCase
    judgement: Judgement


def read_cases(document: object, environment: str) -> list[PolicyCase]:
    """The cases of a file. `environment` is for those that name none, nor does their file.

    Raises InvalidRequest; its `details["problems"]` lists all that is wrong, each with its place.
    """
    _raise_problems(_file_problems(document))
    assert isinstance(document, Mapping)
    defaults = {"environment": environment, **document}
    return [_case(index, raw, defaults) for index, raw in enumerate(document["cases"])]


def read_call(call: object, job: object, environment: str) -> PolicyCall:
    """One call as `{tool, args, destination, unseen}`, and its job. Raises InvalidRequest with all that is wrong."""
    problems = [f"the call: {problem}" for problem in _problems(call, CALL_CHECKS, ("tool",))]
    _raise_problems([*problems, *(f"the job: {problem}" for problem in _job(job))])
    assert isinstance(call, Mapping)
    assert isinstance(job, Mapping)
    return _call(call, _with_labels(job), environment)


def failures(policy: Policy, cases: Sequence[PolicyCase]) -> list[Failure]:
    """The cases that the policy judges otherwise, each with what it says."""
    judged = [Failure(case, case.call.judge(policy)) for case in cases]
    return [found for found in judged if found.case.wrong(found.judgement)]


def _in_order(reviewers: tuple[str, ...] | None) -> list[str] | None:
    return None if reviewers is None else sorted(reviewers)


def _call(raw: Mapping[str, Any], job: Mapping[str, Any], environment: str) -> PolicyCall:
    args, unseen = raw.get("args", {}), raw.get("unseen", {})
    return PolicyCall(raw["tool"], args, job, environment, raw.get("destination"), unseen)


def _case(index: int, raw: Mapping[str, Any], defaults: Mapping[str, Any]) -> PolicyCase:
    job = _with_labels({**defaults.get("job", {}), **raw.get("job", {})})
    call = _call(raw, job, raw.get("environment", defaults["environment"]))
    reviewers = tuple(raw["reviewers"]) if "reviewers" in raw else None
    return PolicyCase(
        _name(index, raw), call, Verdict(raw["verdict"]), raw.get("rule"), raw.get("approvals"), reviewers
    )


def _name(index: int, raw: object) -> str:
    name = raw.get("name", raw.get("tool")) if isinstance(raw, Mapping) else None
    return f"case {index + 1} ({name})" if isinstance(name, str) else f"case {index + 1}"


def _with_labels(job: Mapping[str, Any]) -> dict[str, Any]:
    # Every job has labels, if only none. The rest has no such default: what is not given, conditions miss.
    return {"labels": {}, **job}


# --- what can be wrong ---------------------------------------------------------------------------------


def _raise_problems(problems: Iterator[str] | list[str]) -> None:
    found = list(problems)
    if found:
        raise InvalidRequest("\n".join(found), problems=found)


def _file_problems(document: object) -> Iterator[str]:
    checks = {"environment": _text, "job": _job, "cases": _cases}
    yield from (f"the file: {problem}" for problem in _problems(document, checks, ("cases",)))
    cases = document.get("cases") if isinstance(document, Mapping) else None
    for index, raw in enumerate(cases if isinstance(cases, list) else ()):
        yield from (f"{_name(index, raw)}: {problem}" for problem in _problems(raw, CASE_CHECKS, ("tool", "verdict")))


def _problems(raw: object, checks: Mapping[str, Check], required: Sequence[str]) -> Iterator[str]:
    if not isinstance(raw, Mapping):
        yield "must be an object"
        return
    yield from (f"the key {key!r} is unknown{did_you_mean(key, checks)}" for key in raw if key not in checks)
    yield from (f"{key!r} is missing" for key in required if key not in raw)
    for key, check in checks.items():
        if key in raw:
            yield from (f"{key}: {problem}" for problem in check(raw[key]))


def _text(value: object) -> Iterator[str]:
    if not isinstance(value, str):
        yield "must be text"


def _args(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _json(value)
    else:
        yield "must be an object: the arguments by name"


def _unseen(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _json(value)
    else:
        yield "must be an object: values by name"


def _json(value: object) -> Iterator[str]:
    try:
        canonical_json(value)
    except UnreadableArguments as error:
        yield error.message


def _count(value: object) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        yield "must be a whole number; 0 where nobody is asked"


def _reviewers(value: object) -> Iterator[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        yield "must be a list of words; empty where nobody is asked"


def _labels(value: object) -> Iterator[str]:
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        yield "must be an object: texts by name"


def _job(value: object) -> Iterator[str]:
    yield from _problems(value, {key: _labels if key == "labels" else _text for key in JOB_KEYS}, ())


def _cases(value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield "must be a list; in TOML, begin each case with [[cases]]"
    elif not value:
        yield "there are none"


def _verdict(value: object) -> Iterator[str]:
    if value not in list(Verdict):
        yield unknown_word(value, Verdict)


Check = Callable[[object], Iterator[str]]
CALL_CHECKS: Mapping[str, Check] = {"tool": _text, "args": _args, "destination": _json, "unseen": _unseen}
CASE_CHECKS: Mapping[str, Check] = {
    "name": _text,
    **CALL_CHECKS,
    "job": _job,
    "environment": _text,
    "verdict": _verdict,
    "rule": _text,
    "approvals": _count,
    "reviewers": _reviewers,
}
