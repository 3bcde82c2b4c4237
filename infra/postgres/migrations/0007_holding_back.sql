-- What holds effects back: pauses, the limits and circuits of providers; and the workers that are running.

-- Nothing of this agent, of this tool, or of anybody at all is dispatched until it has ended.
CREATE TABLE signoff.pauses (
    id         uuid PRIMARY KEY,
    agent      text,
    tool       text,
    reason     text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_by   text,
    ended_at   timestamptz,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);
CREATE INDEX pauses_active ON signoff.pauses (created_at) WHERE ended_at IS NULL;

-- Effects that something holds back: counted, and woken when a pause ends.
CREATE INDEX effects_waiting ON signoff.effects (waits_for) WHERE waits_for IS NOT NULL;

-- Whom tools send to: by default one for each agent and tool. Locked after the effect, last of all.
CREATE TABLE signoff.providers (
    name        text PRIMARY KEY,
    -- Of the limit per minute: how many may leave now, as counted at `counted_at`.
    tokens      double precision,
    counted_at  timestamptz,
    -- Bad ends in a row. At the tool's number of them the circuit opens until `open_until`; then one may try.
    failures    integer NOT NULL DEFAULT 0,
    opened_at   timestamptz,
    open_until  timestamptz,
    last_error  text,
    CHECK ((opened_at IS NULL) = (open_until IS NULL))
);

-- Workers that are, or lately were, there.
CREATE TABLE signoff.workers (
    name               text PRIMARY KEY,
    agents             text[] NOT NULL,
    version            text NOT NULL,
    started_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The worker's clock less the database's.
    clock_offset_seconds double precision NOT NULL DEFAULT 0,
    drain_requested_at timestamptz,
    drain_requested_by text,
    drained_at         timestamptz,
    stopped_at         timestamptz
);

-- What is counted and leaves no row elsewhere.
CREATE TABLE signoff.tallies (
    name  text NOT NULL,
    label text NOT NULL DEFAULT '',
    value bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, label)
);

CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.pauses FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('pause', 'id', 'agent', 'tool', 'ended_by', 'ended_at');
