"""What one run holds of its thread: rows that are not in the database yet, and what is known of those that are.

No method waits, so every state of it between two awaits is whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from signoff.domain.errors import LeaseLost
from signoff.infra.postgres.checkpoint_rows import Blob, BlobKey, Found, Place, Row, Write, WriteKey, add_write

ROOT = ""
# Behind a namespace among the subgraph heads: its checkpoint from before the root's head, which a fork starts from.
# No namespace ends like this.
BEFORE = ":before"


class Recorded(NamedTuple):
    """What the thread's row says."""

    checkpoint_id: str | None = None
    job_id: UUID | None = None
    parked: bool = False
    subgraph_heads: Mapping[str, str] = {}


@dataclass(slots=True)
class Line:
    """One namespace."""

    rows: dict[str, Row] = field(default_factory=dict)  # in memory alone, in the order of their puts
    stored: list[str] = field(default_factory=list)  # in the database, as far as this run may need them
    newest: str | None = None
    values: frozenset[BlobKey] = frozenset()  # of the newest, as far as it was put or read here
    started_from: Mapping[str, str] = field(default_factory=dict)


class Buffer:
    """`lock` is held from a flush's snapshot to its end."""

    def __init__(self, job_id: UUID, recorded: Recorded, keeps_everything: bool) -> None:
        self.job_id = job_id
        self.keeps_everything = keeps_everything
        self.dead = False
        self.lock = asyncio.Lock()
        self.epoch = 0  # changes when a flush begins and when it has committed
        self.read_ahead: Found | None = None  # the head as read from the database, for the one read that follows
        self.addressed = False  # an older checkpoint was asked for by its id
        self.clear()
        self.recorded = recorded
        self._adopt(recorded)

    def clear(self) -> None:
        """The thread is empty."""
        self.recorded = Recorded()
        self.epoch += 1
        self.lines: dict[str, Line] = {}
        self.writes: dict[Place, dict[WriteKey, Write]] = {}
        self.blobs: dict[BlobKey, Blob] = {}
        self.unsaved: set[BlobKey] = set()
        self.parents: dict[Place, str | None] = {}
        self.superseded: set[Place] = set()
        self.disposable: set[Place] = set()  # in the database until something supersedes them
        self.permanent: set[Place] = set()  # in the database until retention
        self.only_heads_stored = False
        self.head_is_ours = False

    def _adopt(self, recorded: Recorded) -> None:
        """Starts from the heads that an earlier flush recorded."""
        if recorded.checkpoint_id is None:
            return
        heads = {ROOT: recorded.checkpoint_id, **recorded.subgraph_heads}
        for name, checkpoint_id in heads.items():
            namespace = name.removesuffix(BEFORE)
            line = self.lines.setdefault(namespace, Line())
            line.stored.append(checkpoint_id)
            (self.permanent if recorded.parked else self.disposable).add((namespace, checkpoint_id))
            if namespace == name:
                line.newest = checkpoint_id
                line.started_from = {k: v for k, v in heads.items() if _is_around(k, namespace)}

    def require_alive(self) -> None:
        if self.dead:
            raise LeaseLost("a flush of this run's checkpoints did not commit: nothing more can be stored for it")

    # --- puts -------------------------------------------------------------------------------------------

    def put(self, row: Row, blobs: Mapping[BlobKey, Blob]) -> None:
        self.require_alive()
        line = self.lines.setdefault(row.namespace, Line())
        self._supersede(row.namespace, line.newest, row)
        self._supersede(row.namespace, row.parent, row)
        line.rows[row.id] = row
        line.newest = row.id
        line.values = frozenset(row.value_keys())
        line.started_from = {k: v for k, v in row.started_from.items() if _is_around(k, row.namespace)}
        self.parents[row.namespace, row.id] = row.parent
        for key in blobs.keys() - self.blobs.keys():
            self.blobs[key] = blobs[key]
            self.unsaved.add(key)
        self.keeps_everything |= row.counts_deltas
        self.head_is_ours |= row.namespace == ROOT

    def _supersede(self, namespace: str, checkpoint_id: str | None, by: Row) -> None:
        if checkpoint_id is not None and checkpoint_id != by.id:
            self.superseded.add((namespace, checkpoint_id))

    def put_writes(self, place: Place, writes: Mapping[WriteKey, Write]) -> None:
        self.require_alive()
        held = self.writes.setdefault(place, {})
        for key, write in writes.items():
            add_write(held, key, write)

    # --- reads ------------------------------------------------------------------------------------------

    def newest(self, namespace: str) -> str | None:
        line = self.lines.get(namespace)
        return None if line is None else line.newest

    def row(self, place: Place) -> Row | None:
        line = self.lines.get(place[0])
        return None if line is None else line.rows.get(place[1])

    def is_stored(self, place: Place) -> bool:
        line = self.lines.get(place[0])
        return line is not None and place[1] in line.stored

    def rows(self) -> Iterator[Row]:
        for line in self.lines.values():
            yield from line.rows.values()

    def note_stored(self, place: Place, parent: str | None, blobs: Mapping[BlobKey, Blob]) -> None:
        """A checkpoint was read from the database."""
        self.parents.setdefault(place, parent)
        if place not in self.disposable:
            self.permanent.add(place)
        if self.newest(place[0]) == place[1]:
            self.lines[place[0]].values = frozenset(blobs)
            self.blobs.update(blobs)

    # --- what a flush needs to know -----------------------------------------------------------------------

    def is_finished(self, namespace: str) -> bool:
        """A subgraph call is over when a checkpoint that it was started from has been superseded."""
        return any(place in self.superseded for place in self.lines[namespace].started_from.items())

    def keep_only_heads(self) -> set[Place]:
        """Forgets what else is in the database, and returns what is left there."""
        heads = {(ns.removesuffix(BEFORE), i) for ns, i in self.recorded.subgraph_heads.items()}
        if self.recorded.checkpoint_id is not None:
            heads.add((ROOT, self.recorded.checkpoint_id))
        self.permanent &= heads
        self.only_heads_stored = True
        return heads

    def head_job(self) -> UUID | None:
        return self.job_id if self.head_is_ours else self.recorded.job_id


def _is_around(outer: str, namespace: str) -> bool:
    """Whether `namespace` is of a subgraph call inside the graph of `outer`. State that outlives calls is of none."""
    return ":" in namespace and outer != namespace and (outer == ROOT or namespace.startswith(outer + "|"))
