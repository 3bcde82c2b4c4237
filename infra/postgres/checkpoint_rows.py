"""Rows of LangGraph's tables as they are held in memory: serialised when they are put, built anew when they are read.

The format is that of `AsyncPostgresSaver`, so that its own code reads what is written here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_serializable_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from psycopg.rows import DictRow

Place = tuple[str, str]  # namespace, checkpoint id
BlobKey = tuple[str, str, str]  # namespace, channel, version
WriteKey = tuple[str, int]  # task id, index


class Blob(NamedTuple):
    type: str
    data: bytes


class Write(NamedTuple):
    task_path: str
    channel: str
    type: str
    data: bytes
    replaces: bool  # what is stored under its key gives way; otherwise the stored one stays


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint that is not in the database yet."""

    namespace: str
    id: str
    parent: str | None
    checkpoint: str
    metadata: str
    blobs: Mapping[str, str]  # channel -> version, of the values that are not inline
    started_from: Mapping[str, str]  # of a subgraph call: the checkpoints of the graphs around it
    counts_deltas: bool

    def value_keys(self) -> list[BlobKey]:
        return [(self.namespace, channel, version) for channel, version in self.blobs.items()]


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint as it was read, from memory, the database or both."""

    namespace: str
    id: str
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    blobs: Mapping[str, Blob]
    writes: Mapping[WriteKey, Write]


def dump_checkpoint(
    serde: SerializerProtocol,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> tuple[Row, dict[BlobKey, Blob]]:
    """Nothing of the checkpoint is referred to by what is returned."""
    place = config["configurable"]
    namespace = place.get("checkpoint_ns", "")
    inline, others = _split(checkpoint["channel_values"])
    versions = {k: str(v) for k, v in checkpoint["channel_versions"].items() if k in others}
    row = Row(
        namespace=namespace,
        id=checkpoint["id"],
        parent=place.get("checkpoint_id"),
        checkpoint=json.dumps({**checkpoint, "channel_values": inline}),
        metadata=json.dumps(get_serializable_checkpoint_metadata(config, metadata)),
        blobs=versions,
        started_from=dict(metadata.get("parents") or {}),
        counts_deltas="counters_since_delta_snapshot" in metadata
        or any(isinstance(value, _DeltaSnapshot) for value in others.values()),
    )
    changed = versions.keys() & new_versions.keys()
    blobs = {(namespace, k, versions[k]): Blob(*serde.dumps_typed(others[k])) for k in changed}
    return row, blobs


def _split(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values that JSON can hold stay in the checkpoint; the others become blobs."""
    inline: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for channel, value in values.items():
        if isinstance(value, _DeltaSnapshot):
            inline[channel] = True  # the mark that LangGraph's own saver leaves
            others[channel] = value
        else:
            (inline if _fits_json(value) else others)[channel] = value
    return inline, others


def _fits_json(value: object) -> bool:
    if isinstance(value, str):
        return "\0" not in value and (value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, int)


def dump_writes(
    serde: SerializerProtocol, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> dict[WriteKey, Write]:
    replaces = all(channel in WRITES_IDX_MAP for channel, _ in writes)
    rows: dict[WriteKey, Write] = {}
    for index, (channel, value) in enumerate(writes):
        write = Write(task_path, channel, *serde.dumps_typed(value), replaces)
        add_write(rows, (task_id, WRITES_IDX_MAP.get(channel, index)), write)
    return rows


def add_write(held: dict[WriteKey, Write], key: WriteKey, write: Write) -> None:
    """What LangGraph's saver does on a conflict: its special writes replace, the others stay as they are."""
    if (old := held.get(key)) is None:
        held[key] = write
    elif write.replaces:
        held[key] = write._replace(task_path=old.task_path)


def overlaid(stored: Mapping[WriteKey, Write], held: Iterable[tuple[WriteKey, Write]]) -> dict[WriteKey, Write]:
    result = dict(stored)
    for key, write in held:
        add_write(result, key, write)
    return result


def found_in_database(row: DictRow) -> Found:
    """From a row of LangGraph's `SELECT_SQL`."""
    writes = {
        (task.decode(), int(index)): Write(path.decode(), channel.decode(), kind.decode(), data, False)
        for task, channel, kind, data, path, index in row["pending_writes"] or ()
    }
    blobs = {channel.decode(): Blob(kind.decode(), data) for channel, kind, data in row["channel_values"] or ()}
    return Found(
        row["checkpoint_ns"],
        row["checkpoint_id"],
        row["parent_checkpoint_id"],
        row["checkpoint"],
        row["metadata"],
        blobs,
        writes,
    )


def load_tuple(serde: SerializerProtocol, thread_id: str, found: Found) -> CheckpointTuple:
    """Fresh objects, that the caller may change."""
    values = {c: serde.loads_typed((b.type, b.data)) for c, b in found.blobs.items() if b.type != "empty"}
    inline = found.checkpoint.get("channel_values") or {}
    checkpoint = {**found.checkpoint, "channel_values": {**inline, **values}}
    return CheckpointTuple(
        _config(thread_id, found.namespace, found.id),
        cast(Checkpoint, checkpoint),
        cast(CheckpointMetadata, found.metadata),
        _config(thread_id, found.namespace, found.parent) if found.parent else None,
        load_writes(serde, found),
    )


def load_writes(serde: SerializerProtocol, found: Found) -> list[PendingWrite]:
    """Fresh objects, in LangGraph's order."""
    in_order = sorted(found.writes.items(), key=lambda item: writes_sort_key(item[1].task_path, *item[0]))
    return [(task, w.channel, serde.loads_typed((w.type, w.data))) for (task, _), w in in_order]


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}
