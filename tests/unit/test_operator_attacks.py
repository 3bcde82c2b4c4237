"""Watching ends when nobody reads any more, also while nothing changes."""

from __future__ import annotations

import os

import pytest

from signoff.infra.cli.watching import require_reader


def test_a_pipe_that_nobody_reads_is_noticed_without_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as out:
        monkeypatch.setattr("sys.stdout", out)
        require_reader()
        os.close(reader)
        with pytest.raises(BrokenPipeError):
            require_reader()
