"""Where in a policy file a key stands: the TOML parser of the standard library does not say."""

from __future__ import annotations

import itertools
import re

_RULE = re.compile(r"""\s*\[\[\s*(?:rules|"rules"|'rules')\s*\]\]""")
_PART_OF_RULE = re.compile(r"""\s*\[\[?\s*rules\s*\.\s*(\w+)\s*\]\]?\s*(?:#.*)?$""")
_OTHER_TABLE = re.compile(r"""\s*\[\[?\s*["'\w][^,]*\]\s*(?:#.*)?$""")
_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*[=.]""")
_FENCE = re.compile(r"\"{3}|'{3}")


class Lines:
    """Line numbers (from 1) of the keys of a policy file, found in text that is valid TOML.

    Built for messages: a contrived layout can make a line a little early, never an error.
    """

    def __init__(self, text: str) -> None:
        self._found: dict[tuple[int | None, str | None], int] = {(None, None): 1}
        self._rule: int | None = None
        self._part: str | None = None
        self._fence: str | None = None
        for number, line in enumerate(text.split("\n"), start=1):
            self._read(number, line)

    def of(self, rule: int | None, key: str | None) -> int:
        """The line of the key, else of its rule, else of all rules, else the first.

        A key may name a part of another: `escalation.2` is its second table, `escalation.2.after` a key of that.
        """
        parts = [] if key is None else key.split(".")
        keys = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
        places = [*((rule, each) for each in keys), (rule, None), (None, "rules"), (None, None)]
        return next(self._found[place] for place in places if place in self._found)

    def _read(self, number: int, line: str) -> None:
        if self._fence is None:
            self._read_heading_or_key(number, line)
        if not line.lstrip().startswith("#") or self._fence:
            self._follow_fences(line)

    def _read_heading_or_key(self, number: int, line: str) -> None:
        if _RULE.match(line):
            self._rule = 0 if self._rule is None else self._rule + 1
            self._part = None
            self._found[(self._rule, None)] = number
        elif (part := _PART_OF_RULE.match(line)) and self._rule is not None:
            self._begin_part(number, part[1])
        elif other := _OTHER_TABLE.match(line):
            self._found.setdefault((None, other[0].partition("#")[0].strip("[] \t\r")), number)
        elif key := _KEY.match(line):
            name = next((word for word in key.groups() if word), None)
            self._found.setdefault((self._rule, f"{self._part}.{name}" if self._part else name), number)

    def _begin_part(self, number: int, key: str) -> None:
        self._found.setdefault((self._rule, key), number)
        count = next(count for count in itertools.count(1) if (self._rule, f"{key}.{count}") not in self._found)
        self._part = f"{key}.{count}"
        self._found[(self._rule, self._part)] = number

    def _follow_fences(self, line: str) -> None:
        for found in _FENCE.finditer(line):
            if self._fence is None:
                self._fence = found[0]
            elif self._fence == found[0]:
                self._fence = None
