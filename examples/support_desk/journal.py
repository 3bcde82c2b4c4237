"""An append-only file of JSON lines: what it has said is on the disk before anybody is told."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class Journal:
    """One writer; any number of readers."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = threading.Lock()
        self._file = path.open("ab", buffering=0)

    def add(self, **entry: Any) -> None:
        line = json.dumps({"at": datetime.now(UTC).isoformat(), **entry}, ensure_ascii=False) + "\n"
        with self._lock:
            self._file.write(line.encode())
            os.fsync(self._file.fileno())

    def entries(self) -> Iterator[dict[str, Any]]:
        """All lines so far; a last line that a crash cut off is left out."""
        for line in self.path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)

    def close(self) -> None:
        self._file.close()
