"""Where in a policy file a key stands: the TOML parser of the standard library does not say."""

from __future__ import annotations

import re

_RULE = re.compile(r"""\s*\[\[\s*(?:rules|"rules"|'rules')\s*\]\]""")
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
        self._fence: str | None = None
        for number, line in enumerate(text.split("\n"), start=1):
            self._read(number, line)

    def of(self, rule: int | None, key: str | None) -> int:
        """The line of the key, else of its rule, else of all rules, else the first."""
        places = [(rule, key), (rule, None), (None, "rules"), (None, None)]
        return next(self._found[place] for place in places if place in self._found)

    def _read(self, number: int, line: str) -> None:
        if self._fence is None:
            self._read_heading_or_key(number, line)
        if not line.lstrip().startswith("#") or self._fence:
            self._follow_fences(line)

    def _read_heading_or_key(self, number: int, line: str) -> None:
        if _RULE.match(line):
            self._rule = 0 if self._rule is None else self._rule + 1
            self._found[(self._rule, None)] = number
        elif found := _OTHER_TABLE.match(line) or _KEY.match(line):
            key = next((name for name in found.groups() if name), None) if found.re is _KEY else line.strip("[] \t\r")
            self._found.setdefault((self._rule if found.re is _KEY else None, key), number)

    def _follow_fences(self, line: str) -> None:
        for found in _FENCE.finditer(line):
            if self._fence is None:
                self._fence = found[0]
            elif self._fence == found[0]:
                self._fence = None
