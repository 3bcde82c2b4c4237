"""Reads of one thread: what is in memory, over what is in the database."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.postgres.base import SELECT_SQL
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg import AsyncCursor
from psycopg.rows import DictRow

from signoff.infra.postgres.checkpoint_buffer import ROOT, Buffer
from signoff.infra.postgres.checkpoint_rows import (
    Blob,
    BlobKey,
    Found,
    Place,
    Row,
    Write,
    WriteKey,
    found_in_database,
    load_tuple,
    load_writes,
    overlaid,
)

_ONE = SELECT_SQL + "WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"
_LATEST = SELECT_SQL + "WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY checkpoint_id DESC LIMIT 1"
_BLOBS = """
SELECT b.channel, b.version, b.type, b.blob FROM checkpoint_blobs b
JOIN unnest(%s::text[], %s::text[]) AS k(channel, version) USING (channel, version)
WHERE b.thread_id = %s AND b.checkpoint_ns = %s
"""


@dataclass(frozen=True, slots=True)
class Captured:
    """What was in memory of one checkpoint before the first wait: a flush may take it away meanwhile."""

    row: Row | None
    blobs: Mapping[BlobKey, Blob]
    writes: tuple[tuple[WriteKey, Write], ...]


@dataclass(frozen=True, slots=True)
class Reader:
    buffer: Buffer
    thread_id: str
    serde: SerializerProtocol
    cursor: Callable[[], AbstractAsyncContextManager[AsyncCursor[DictRow]]]

    async def get(self, namespace: str, checkpoint_id: str | None) -> CheckpointTuple | None:
        """The checkpoint, or without an id the newest of the namespace."""
        if namespace == ROOT and checkpoint_id is not None and checkpoint_id != self.buffer.newest(ROOT):
            self.buffer.addressed = True
        while True:
            began = self.buffer.epoch
            found = await self._find(namespace, checkpoint_id or self.buffer.newest(namespace))
            if began == self.buffer.epoch:  # otherwise a flush may have moved what was read
                return None if found is None else load_tuple(self.serde, self.thread_id, found)

    async def _find(self, namespace: str, checkpoint_id: str | None) -> Found | None:
        if checkpoint_id is None:
            return await self._find_older_call(namespace)
        place = (namespace, checkpoint_id)
        captured = self._capture(place)
        if captured.row is not None and not self.buffer.is_stored(place):
            return await self._from_memory(captured.row, captured)
        began = self.buffer.epoch
        stored = self._take_read_ahead(place) or await self._fetch(_ONE, self.thread_id, namespace, checkpoint_id)
        if stored is None:
            return None
        if began == self.buffer.epoch:
            self.buffer.note_stored(place, stored.parent, _by_key(stored))
        return await self._over(captured, stored)

    async def writes_of_head(self) -> Sequence[PendingWrite]:
        """The pending writes of the stored head, which the read that follows need not fetch again."""
        head = self.buffer.newest(ROOT)
        if head is None:
            return ()
        found = await self._fetch(_ONE, self.thread_id, ROOT, head)
        self.buffer.read_ahead = found
        return load_writes(self.serde, found) if found else ()

    def _take_read_ahead(self, place: Place) -> Found | None:
        found, self.buffer.read_ahead = self.buffer.read_ahead, None
        return found if found is not None and (found.namespace, found.id) == place else None

    async def _find_older_call(self, namespace: str) -> Found | None:
        """A subgraph call of an older checkpoint is no head any more: it is found only by who went back to that."""
        if namespace == ROOT or not self.buffer.addressed:
            return None
        latest = await self._fetch(_LATEST, self.thread_id, namespace)
        return None if latest is None else await self._find(namespace, latest.id)

    async def _over(self, captured: Captured, stored: Found) -> Found:
        found = stored if captured.row is None else await self._from_memory(captured.row, captured)
        return replace(found, writes=overlaid(stored.writes, captured.writes))

    def _capture(self, place: Place) -> Captured:
        row = self.buffer.row(place)
        keys = () if row is None else row.value_keys()
        blobs = {key: self.buffer.blobs[key] for key in keys if key in self.buffer.blobs}
        return Captured(row, blobs, tuple(self.buffer.writes.get(place, {}).items()))

    async def _from_memory(self, row: Row, captured: Captured) -> Found:
        blobs = dict(captured.blobs)
        if missing := [key for key in row.value_keys() if key not in blobs]:
            blobs |= await self._fetch_blobs(row.namespace, missing)
        by_channel = {channel: blob for (_, channel, _), blob in blobs.items()}
        checkpoint, metadata = json.loads(row.checkpoint), json.loads(row.metadata)
        writes = overlaid({}, captured.writes)
        return Found(row.namespace, row.id, row.parent, checkpoint, metadata, by_channel, writes)

    async def _fetch(self, query: str, *params: str) -> Found | None:
        async with self.cursor() as cursor:
            await cursor.execute(query, params, binary=True)
            row = await cursor.fetchone()
        return None if row is None else found_in_database(row)

    async def _fetch_blobs(self, namespace: str, keys: Sequence[BlobKey]) -> dict[BlobKey, Blob]:
        params = ([key[1] for key in keys], [key[2] for key in keys], self.thread_id, namespace)
        async with self.cursor() as cursor:
            await cursor.execute(_BLOBS, params, binary=True)
            rows = await cursor.fetchall()
        return {(namespace, r["channel"], r["version"]): Blob(r["type"], r["blob"]) for r in rows}

    async def list(
        self, query: str, params: Sequence[Any], limit: int | None, matches: Callable[[Row], bool]
    ) -> list[CheckpointTuple]:
        """Newest id first, of what LangGraph's query finds and what is in memory and matches."""
        held = {(r.namespace, r.id): self._capture((r.namespace, r.id)) for r in self.buffer.rows() if matches(r)}
        writes = {place: tuple(held.items()) for place, held in self.buffer.writes.items()}
        async with self.cursor() as cursor:
            await cursor.execute(query, params, binary=True)
            rows = await cursor.fetchall()
        found = [(self.thread_id, await self._from_memory(c.row, c)) for c in held.values() if c.row is not None]
        for row in rows:
            if (thread := row["thread_id"]) != self.thread_id:
                found.append((thread, found_in_database(row)))
            elif (place := (row["checkpoint_ns"], row["checkpoint_id"])) not in held:
                found.append((thread, _overlay(found_in_database(row), writes.get(place, ()))))
        found.sort(key=lambda item: item[1].id, reverse=True)
        return [load_tuple(self.serde, thread, item) for thread, item in found[:limit]]

    async def delta_history(
        self, target: CheckpointTuple, channels: Sequence[str], stored: Callable[..., Awaitable[Any]]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Walks up what is in memory; `stored` answers for what is only in the database."""
        walk = _Walk({channel: [] for channel in channels}, {}, set(channels))
        parent = target.parent_config
        while parent is not None and walk.open:
            place = (parent["configurable"]["checkpoint_ns"], parent["configurable"]["checkpoint_id"])
            in_memory = self.buffer.row(place) is not None
            ancestor = await self.get(*place)
            if ancestor is None:
                break
            walk.pass_by(ancestor)
            if not in_memory and walk.open:
                walk.end_with(await stored(config=ancestor.config, channels=sorted(walk.open)))
                break
            parent = ancestor.parent_config
        return walk.result()


@dataclass(slots=True)
class _Walk:
    writes: dict[str, list[PendingWrite]]  # newest first
    seeds: dict[str, Any]
    open: set[str]

    def pass_by(self, ancestor: CheckpointTuple) -> None:
        for write in reversed(ancestor.pending_writes or []):
            if write[1] in self.open:
                self.writes[write[1]].append(write)
        for channel in self.open & ancestor.checkpoint["channel_values"].keys():
            self.seeds[channel] = ancestor.checkpoint["channel_values"][channel]
            self.open.discard(channel)

    def end_with(self, older: Mapping[str, DeltaChannelHistory]) -> None:
        for channel, history in older.items():
            self.writes[channel].extend(reversed(history["writes"]))
            if "seed" in history:
                self.seeds[channel] = history["seed"]

    def result(self) -> dict[str, DeltaChannelHistory]:
        result: dict[str, DeltaChannelHistory] = {}
        for channel, writes in self.writes.items():
            result[channel] = {"writes": writes[::-1]}
            if channel in self.seeds:
                result[channel]["seed"] = self.seeds[channel]
        return result


def _by_key(found: Found) -> dict[BlobKey, Blob]:
    versions = found.checkpoint["channel_versions"]
    return {(found.namespace, c, str(versions[c])): blob for c, blob in found.blobs.items()}


def _overlay(found: Found, held: Iterable[tuple[WriteKey, Write]]) -> Found:
    return replace(found, writes=overlaid(found.writes, held))


def matcher(
    namespace: str | None, checkpoint_id: str | None, before: str | None, metadata: Mapping[str, Any] | None
) -> Callable[[Row], bool]:
    """The same conditions as in LangGraph's query, for rows in memory."""

    def matches(row: Row) -> bool:
        return (
            (namespace is None or row.namespace == namespace)
            and (not checkpoint_id or row.id == checkpoint_id)
            and (before is None or row.id < before)
            and (not metadata or _contains(json.loads(row.metadata), metadata))
        )

    return matches


def _contains(have: Any, want: Any) -> bool:
    """jsonb's `@>`."""
    if isinstance(want, Mapping):
        return isinstance(have, Mapping) and all(k in have and _contains(have[k], v) for k, v in want.items())
    if isinstance(want, list | tuple):
        return isinstance(have, list) and all(any(_contains(item, part) for item in have) for part in want)
    return isinstance(have, bool) == isinstance(want, bool) and bool(have == want)
