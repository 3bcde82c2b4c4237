"""Which rows a flush writes and deletes, decided at once from what is in memory, and what to forget afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from signoff.infra.postgres.checkpoint_buffer import BEFORE, ROOT, Buffer, Line, Recorded
from signoff.infra.postgres.checkpoint_rows import Blob, BlobKey, Place, Row, Write, WriteKey

Held = tuple[Place, WriteKey, Write]


@dataclass(frozen=True, slots=True)
class Plan:
    """One flush. Rows are those of the moment when it was made; what is put later is not touched by it."""

    head: Recorded
    wanted: frozenset[Place]  # what is in the database afterwards, of what this run wrote and can still need
    rows: tuple[Row, ...]
    blobs: Mapping[BlobKey, Blob]
    writes: tuple[Held, ...]
    gone: tuple[Place, ...]
    moved: Mapping[Place, str | None]  # stored checkpoints whose parent goes: their new parents
    seen_rows: tuple[Row, ...]
    seen_writes: tuple[Held, ...]
    finished: frozenset[str]

    @property
    def empty(self) -> bool:
        return not (self.rows or self.writes or self.gone)

    def recorded(self, parked: bool) -> Recorded:
        """The thread's row after this flush. A checkpoint that was parked at stays a fork point."""
        return self.head._replace(parked=parked or self.head.parked)


def plan_flush(buffer: Buffer) -> Plan:
    finished = frozenset(ns for ns in buffer.lines if buffer.is_finished(ns))
    kept = {ns: _kept(buffer, ns, line) for ns, line in buffer.lines.items() if ns not in finished}
    wanted = {(ns, i) for ns, ids in kept.items() for i in ids}
    seen_rows = tuple(buffer.rows())
    seen_writes = tuple((place, key, w) for place, held in buffer.writes.items() for key, w in held.items())
    everything = buffer.keeps_everything
    rows = seen_rows if everything else tuple(_with_parent(buffer, wanted, r) for r in _of(seen_rows, wanted))
    gone = () if everything else tuple(sorted(buffer.disposable - wanted))
    return Plan(
        head=_head(buffer, kept),
        wanted=frozenset(wanted),
        rows=rows,
        blobs=dict(_unsaved_blobs(buffer, rows)),
        writes=seen_writes if everything else tuple(w for w in seen_writes if _belongs(buffer, wanted, w[0])),
        gone=gone,
        moved=_moved(buffer, wanted, gone),
        seen_rows=seen_rows,
        seen_writes=tuple(w for w in seen_writes if everything or _is_settled(buffer, wanted, finished, w[0])),
        finished=finished,
    )


def _kept(buffer: Buffer, namespace: str, line: Line) -> list[str]:
    """The newest checkpoint; of state that outlives calls also the one that a fork of the root's head starts from."""
    if line.newest is None:
        return []
    root = buffer.newest(ROOT)
    if ":" in namespace or namespace == ROOT or root is None or buffer.keeps_everything:
        return [line.newest]
    # LangGraph looks for the largest id below the root's.
    before = max((i for i in (*line.stored, *line.rows) if i < root), default=line.newest)
    return [line.newest] if before == line.newest else [line.newest, before]


def _head(buffer: Buffer, kept: Mapping[str, list[str]]) -> Recorded:
    root = buffer.newest(ROOT)
    heads: dict[str, str] = {}
    for namespace, ids in kept.items():
        if namespace != ROOT:
            heads.update(zip((namespace, namespace + BEFORE), ids, strict=False))
    return Recorded(root, buffer.head_job(), root is not None and (ROOT, root) in buffer.permanent, heads)


def _of(rows: tuple[Row, ...], wanted: set[Place]) -> Iterator[Row]:
    return (row for row in rows if (row.namespace, row.id) in wanted)


def _with_parent(buffer: Buffer, wanted: set[Place], row: Row) -> Row:
    parent = _nearest_kept(buffer, wanted, row.namespace, row.parent)
    return row if parent == row.parent else replace(row, parent=parent)


def _nearest_kept(buffer: Buffer, wanted: set[Place], namespace: str, parent: str | None) -> str | None:
    while parent is not None:
        place = (namespace, parent)
        if place in wanted or place in buffer.permanent:
            return parent
        if place not in buffer.parents:
            return None if place in buffer.disposable or buffer.only_heads_stored else parent
        parent = buffer.parents[place]
    return None


def _unsaved_blobs(buffer: Buffer, rows: tuple[Row, ...]) -> Iterator[tuple[BlobKey, Blob]]:
    for row in rows:
        for key in row.value_keys():
            if key in buffer.unsaved:
                yield key, buffer.blobs[key]


def _belongs(buffer: Buffer, wanted: set[Place], place: Place) -> bool:
    return place in wanted or place in buffer.permanent


def _is_settled(buffer: Buffer, wanted: set[Place], finished: frozenset[str], place: Place) -> bool:
    """Whether a write is stored now or never. Otherwise its checkpoint is still to be put."""
    return _belongs(buffer, wanted, place) or place in buffer.superseded or place[0] in finished


def _moved(buffer: Buffer, wanted: set[Place], gone: tuple[Place, ...]) -> dict[Place, str | None]:
    """State that outlives calls: its newest checkpoint can stay while the one before it goes."""
    moved: dict[Place, str | None] = {}
    for namespace, parent in gone:
        line = buffer.lines.get(namespace)
        if line is None or line.newest is None or line.newest in line.rows or line.newest not in line.stored:
            continue
        if (namespace, line.newest) in wanted and line.newest != parent:
            moved[namespace, line.newest] = _nearest_kept(buffer, wanted, namespace, parent)
    return moved


def forget(buffer: Buffer, plan: Plan, parked: bool) -> None:
    """After the commit: only what the plan saw, and only where nothing newer has taken its place."""
    for row in plan.seen_rows:
        rows = buffer.lines[row.namespace].rows
        if rows.get(row.id) is row:
            del rows[row.id]
    for place, key, write in plan.seen_writes:
        held = buffer.writes.get(place, {})
        if held.get(key) is write:
            del held[key]
            if not held:
                del buffer.writes[place]
    buffer.unsaved -= plan.blobs.keys()
    buffer.epoch += 1
    _settle(buffer, plan, parked)
    _drop_lines(buffer, plan)
    _drop_blobs(buffer)


def _settle(buffer: Buffer, plan: Plan, parked: bool) -> None:
    if parked:
        buffer.permanent |= plan.wanted
    buffer.disposable = set(plan.wanted - buffer.permanent)
    buffer.recorded = plan.recorded(parked)
    for line in buffer.lines.values():
        line.stored = []
    for namespace, checkpoint_id in plan.wanted:
        buffer.lines[namespace].stored.append(checkpoint_id)


def _drop_lines(buffer: Buffer, plan: Plan) -> None:
    for namespace in plan.finished:
        line = buffer.lines[namespace]
        if line.newest is not None:
            buffer.superseded.add((namespace, line.newest))
        if not line.rows:
            del buffer.lines[namespace]


def _drop_blobs(buffer: Buffer) -> None:
    """Those of the newest checkpoints stay, so that reading a later one needs no database."""
    used = {key for row in buffer.rows() for key in row.value_keys()}
    used.update(*(line.values for line in buffer.lines.values()))
    buffer.blobs = {key: blob for key, blob in buffer.blobs.items() if key in used}
    buffer.unsaved &= buffer.blobs.keys()
