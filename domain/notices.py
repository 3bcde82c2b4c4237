"""Notifications: the text that tells a reviewer of a review. It shows where to look, and never decides. Pure.

The first line is the subject of a mail. Arguments are never in it: what is told of a call is its description.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from string import Formatter
from types import MappingProxyType

from signoff.domain.errors import InvalidRequest
from signoff.domain.wording import did_you_mean

PLACEHOLDERS = ("event", "review_id", "tool", "description", "job_id", "agent", "deadline_at", "link")
NOTIFYING = tuple(f"signoff.review.{what}.v1" for what in ("requested", "reminded", "escalated", "reassigned"))
MAX_VALUE_CHARACTERS = 2000
MAX_SUBJECT_CHARACTERS = 200

_WHERE = """

{description}

Agent {agent}, job {job_id}. Deadline: {deadline_at}
signoff reviews show {review_id}
{link}"""
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "signoff.review.requested.v1": "Please review: {tool}" + _WHERE,
        "signoff.review.reminded.v1": "Still to review: {tool}" + _WHERE,
        "signoff.review.escalated.v1": "Now yours to review: {tool}" + _WHERE,
        "signoff.review.reassigned.v1": "Yours to review: {tool}" + _WHERE,
        "signoff.review.amended.v1": "Changed, and to review: {tool}" + _WHERE,
        "signoff.review.decided.v1": "Decided: {tool}" + _WHERE,
        "signoff.review.expired.v1": "Expired without a decision: {tool}" + _WHERE,
        "signoff.job.held.v1": "A job waits for an operator: {job_id}\n\nAgent {agent}.\n{link}",
    }
)
OTHER = "Signoff: {event}\n\nAgent {agent}, job {job_id}.\n{link}"
# Neither shown nor harmless: they end a line, move the cursor, or reorder what is read.
_DANGEROUS = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def check_template(template: str) -> None:
    """Raises InvalidRequest for a placeholder that there is not, or one that is more than a name."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise InvalidRequest(f"'template': {error}; write {{{{ and }}}} for braces", field="template") from None
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if name not in PLACEHOLDERS or spec or conversion:
            near = did_you_mean(name, PLACEHOLDERS) or f"; use one of {', '.join(PLACEHOLDERS)}"
            raise InvalidRequest(f"'template': {{{name}}} is no placeholder{near}", field="template")


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with each of its placeholders filled in; `values` are cleaned already."""
    parts = Formatter().parse(template)
    return "".join(text + (values.get(name, "") if name else "") for text, name, _, _ in parts)


def clean(value: str) -> str:
    """One line of text that only shows: what a model wrote can't add a line, a header or a direction."""
    kept = "".join(" " if unicodedata.category(char) in _DANGEROUS else char for char in value)
    return " ".join(kept.split())[:MAX_VALUE_CHARACTERS]


def subject_of(text: str) -> str:
    return clean(text.lstrip().partition("\n")[0])[:MAX_SUBJECT_CHARACTERS]
