"""A console whose prompts no signal goes past.

A signal that arrives after Python's last look at its flags and before a blocking read is noticed only once the read
returns, which at a terminal may be never. So a prompt waits for the line and for a pipe that each signal writes to.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import TextIO

from rich.console import Console
from rich.text import TextType


class DemoConsole(Console):
    """One for each process, created in its main thread: signals have one pipe."""

    def __init__(self) -> None:
        super().__init__(highlight=False)
        self._signals, end = os.pipe()
        os.set_blocking(end, False)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)

    def input(
        self,
        prompt: TextType = "",
        *,
        markup: bool = True,
        emoji: bool = True,
        password: bool = False,
        stream: TextIO | None = None,
    ) -> str:
        self.print(prompt, markup=markup, emoji=emoji, end="")
        select.select([sys.stdin, self._signals], [], [])
        return super().input(password=password, stream=stream)
