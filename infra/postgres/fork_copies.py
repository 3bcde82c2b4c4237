"""Copies of checkpoints within LangGraph's tables.

Ids of tasks, and with them those of interrupts, follow from a checkpoint's own id. A copy in another thread keeps it:
what finished beside a question stays finished. A new head of the same thread gets an id of its own: what is asked there
is asked under a new one, and what had finished runs again.
"""

from __future__ import annotations

# A subgraph call that goes on at this checkpoint, in its newest state; of state that outlives calls also what was there
# before.
PLACES = """
SELECT DISTINCT ON (checkpoint_ns) checkpoint_ns, checkpoint_id FROM checkpoints
WHERE thread_id = %(thread)s AND (
    (checkpoint_ns = '' AND checkpoint_id = %(checkpoint)s)
    OR (checkpoint_ns <> '' AND metadata -> 'parents' ->> '' = %(checkpoint)s)
    OR (checkpoint_ns <> '' AND position(':' IN checkpoint_ns) = 0 AND checkpoint_id < %(checkpoint)s))
ORDER BY checkpoint_ns, checkpoint_id DESC
"""

_CHOSEN = "unnest(%(namespaces)s::text[], %(checkpoints)s::text[]) AS p (ns, id)"

COPY_CHECKPOINTS = f"""
INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
SELECT %(id)s, c.checkpoint_ns, c.checkpoint_id, NULL, c.type, c.checkpoint,
    c.metadata || jsonb_build_object('job_id', %(job_text)s::text)
FROM checkpoints c JOIN {_CHOSEN} ON p.ns = c.checkpoint_ns AND p.id = c.checkpoint_id WHERE c.thread_id = %(source)s
"""

COPY_BLOBS = f"""
INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
SELECT DISTINCT ON (b.checkpoint_ns, b.channel, b.version) %(id)s, b.checkpoint_ns, b.channel, b.version, b.type, b.blob
FROM checkpoints c JOIN {_CHOSEN} ON p.ns = c.checkpoint_ns AND p.id = c.checkpoint_id
CROSS JOIN LATERAL jsonb_each_text(c.checkpoint -> 'channel_versions') AS v (channel, version)
JOIN checkpoint_blobs b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns AND b.channel = v.channel
    AND b.version = v.version
WHERE c.thread_id = %(source)s
"""

# Of a task that has asked nothing of it is taken: neither the answer nor what came of that.
COPY_WRITES = f"""
INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
SELECT %(id)s, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, w.type, w.blob
FROM checkpoint_writes w JOIN {_CHOSEN} ON p.ns = w.checkpoint_ns AND p.id = w.checkpoint_id
WHERE w.thread_id = %(source)s AND NOT EXISTS (
    SELECT FROM checkpoint_writes a WHERE a.thread_id = w.thread_id AND a.checkpoint_ns = w.checkpoint_ns
        AND a.checkpoint_id = w.checkpoint_id AND a.task_id = w.task_id
        AND a.channel IN ('__interrupt__', '__resume__', '__error__'))
"""

# Subgraph calls begin anew: their namespaces belong to tasks of the old head. State that outlives calls goes back to
# what it was before the head.
RENEW = """
WITH old AS (
    SELECT id, head_checkpoint_id AS head, subgraph_heads FROM signoff.threads
    WHERE id = %(thread)s AND head_job_id = %(job)s AND head_checkpoint_id IS NOT NULL FOR UPDATE),
copied AS (
    INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
    SELECT c.thread_id, '', %(new)s, c.checkpoint_id, c.type, c.checkpoint || jsonb_build_object('id', %(new)s::text),
        c.metadata
    FROM checkpoints c JOIN old ON old.id = c.thread_id
    WHERE c.checkpoint_ns = '' AND c.checkpoint_id = old.head RETURNING thread_id)
UPDATE signoff.threads t SET head_checkpoint_id = %(new)s, head_parked = false, subgraph_heads = (
    SELECT coalesce(jsonb_object_agg(h.key, coalesce(old.subgraph_heads -> (h.key || ':before'), h.value)), '{}')
    FROM jsonb_each(old.subgraph_heads) AS h WHERE position(':' IN h.key) = 0)
FROM old JOIN copied ON copied.thread_id = old.id WHERE t.id = old.id RETURNING old.head AS old
"""
