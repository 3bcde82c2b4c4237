"""Folders for servers that run as another user."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_open_to_all() -> Iterator[Path]:
    """A temporary folder that every user may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="signoff-test-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
