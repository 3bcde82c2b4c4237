-- The store of the main job. States are text with a CHECK, the same words as in signoff.domain.
-- Order of locks everywhere: job, review, item, effect.

CREATE TABLE signoff.principals (
    name        text PRIMARY KEY,
    kind        text NOT NULL CHECK (kind IN ('person', 'service')),
    groups      text[] NOT NULL DEFAULT '{}',
    rights      text[] NOT NULL DEFAULT '{}' CHECK (rights <@ ARRAY['submit', 'review', 'operate']),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at  timestamptz,
    -- Only persons decide.
    CHECK (kind = 'person' OR NOT ('review' = ANY (rights)))
);

CREATE TABLE signoff.tokens (
    id           uuid PRIMARY KEY,
    principal    text NOT NULL REFERENCES signoff.principals,
    hash         bytea NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at timestamptz,
    revoked_at   timestamptz
);

CREATE TABLE signoff.endpoints (
    name       text PRIMARY KEY,
    secret     text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz
);

-- What an endpoint has sent. Its id counts once; the answer is kept for the sender that asks again.
CREATE TABLE signoff.deliveries (
    endpoint    text NOT NULL REFERENCES signoff.endpoints,
    id          text NOT NULL,
    body_digest text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (endpoint, id)
);
CREATE INDEX deliveries_by_time ON signoff.deliveries (received_at);

-- As registered by the newest worker that serves the agent.
CREATE TABLE signoff.agents (
    name          text PRIMARY KEY,
    tools         jsonb NOT NULL,
    policy        jsonb NOT NULL,
    policy_digest text NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE signoff.threads (
    id                 text PRIMARY KEY,
    agent              text NOT NULL,
    lineage_root       text NOT NULL,
    created_by         text NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The head is found here and never by the largest checkpoint id: ids carry a worker's clock.
    head_checkpoint_id text,
    head_job_id        uuid,
    head_parked        boolean NOT NULL DEFAULT false,
    subgraph_heads     jsonb NOT NULL DEFAULT '{}'
);

CREATE TABLE signoff.jobs (
    id                  uuid PRIMARY KEY,
    thread_id           text NOT NULL REFERENCES signoff.threads,
    agent               text NOT NULL,
    status              text NOT NULL CHECK (status IN ('waiting', 'queued', 'running', 'awaiting_review',
                            'awaiting_operator', 'succeeded', 'failed', 'cancelled')),
    input               text NOT NULL,
    labels              jsonb NOT NULL DEFAULT '{}',
    submitted_by        text NOT NULL,
    door                text NOT NULL,
    idempotency_key     text,
    request_digest      text NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    offered_at          timestamptz,
    fence               bigint NOT NULL DEFAULT 0,
    lease_owner         text,
    lease_until         timestamptz,
    tries               integer NOT NULL DEFAULT 0,
    claimed_at          timestamptz,
    ran_seconds         double precision NOT NULL DEFAULT 0,
    event_sequence      bigint NOT NULL DEFAULT 0,
    cancel_requested_at timestamptz,
    cancel_requested_by text,
    result              jsonb,
    error_code          text,
    error_message       text,
    ended_at            timestamptz,
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status IN ('succeeded', 'failed', 'cancelled')) = (ended_at IS NOT NULL))
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX one_started_job_per_thread ON signoff.jobs (thread_id)
    WHERE status IN ('queued', 'running', 'awaiting_review', 'awaiting_operator');
CREATE UNIQUE INDEX one_job_per_idempotency_key ON signoff.jobs (submitted_by, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_due ON signoff.jobs (agent, run_at) WHERE status = 'queued';
CREATE INDEX jobs_leased ON signoff.jobs (lease_until) WHERE status = 'running';
CREATE INDEX jobs_waiting ON signoff.jobs (thread_id, created_at) WHERE status = 'waiting';
CREATE INDEX jobs_by_time ON signoff.jobs (created_at, id);

CREATE TABLE signoff.reviews (
    id            uuid PRIMARY KEY,
    job_id        uuid NOT NULL REFERENCES signoff.jobs,
    thread_id     text NOT NULL REFERENCES signoff.threads,
    interrupt_id  text NOT NULL,
    checkpoint_id text NOT NULL,
    status        text NOT NULL CHECK (status IN ('pending', 'decided', 'expired', 'cancelled', 'superseded')),
    policy_digest text NOT NULL,
    reviewers     text[] NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    deadline_at   timestamptz,
    decided_at    timestamptz,
    resumed_at    timestamptz,
    UNIQUE (thread_id, interrupt_id)
);
CREATE INDEX reviews_of_job ON signoff.reviews (job_id);
CREATE INDEX reviews_pending ON signoff.reviews (created_at) WHERE status = 'pending';

CREATE TABLE signoff.items (
    id                         uuid PRIMARY KEY,
    review_id                  uuid NOT NULL REFERENCES signoff.reviews,
    ordinal                    integer NOT NULL,
    status                     text NOT NULL CHECK (status IN ('open', 'decided', 'expired', 'cancelled', 'superseded')),
    operation_id               text NOT NULL,
    message_id                 text NOT NULL,
    call_ordinal               integer NOT NULL,
    edits                      integer NOT NULL,
    tool_call_id               text NOT NULL,
    tool                       text NOT NULL,
    args                       json,  -- json and not jsonb: numbers keep their digits, so the digest can be checked
    unreadable_args            text,
    digest                     text NOT NULL,
    description                text NOT NULL,
    rule                       text NOT NULL,
    reason                     text NOT NULL,
    allowed_decisions          text[] NOT NULL,
    reviewers                  text[] NOT NULL,
    args_schema                jsonb,
    deadline_at                timestamptz,
    approval_valid_for_seconds double precision,
    UNIQUE (review_id, ordinal),
    CHECK ((args IS NULL) <> (unreadable_args IS NULL))
);
CREATE INDEX items_of_operation ON signoff.items (operation_id);
CREATE INDEX items_deadlines ON signoff.items (deadline_at) WHERE status = 'open' AND deadline_at IS NOT NULL;

CREATE TABLE signoff.decisions (
    id            uuid PRIMARY KEY,
    item_id       uuid NOT NULL UNIQUE REFERENCES signoff.items,  -- one winner per item
    type          text NOT NULL CHECK (type IN ('approve', 'edit', 'reject', 'respond')),
    reviewer      text NOT NULL REFERENCES signoff.principals,
    door          text NOT NULL,
    operation_id  text NOT NULL,   -- of the call as finally allowed
    digest        text NOT NULL,
    args          json,
    message       text,
    next_step     text CHECK (next_step IN ('stop', 'ask', 'revise')),
    decided_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE signoff.effects (
    operation_id        text PRIMARY KEY,
    generation          integer NOT NULL DEFAULT 0,
    job_id              uuid NOT NULL REFERENCES signoff.jobs,
    thread_id           text NOT NULL,
    agent               text NOT NULL,
    tool                text NOT NULL,
    args                json NOT NULL,
    digest              text NOT NULL,
    class               text CHECK (class IN ('read', 'idempotent', 'keyed', 'opaque')),  -- the tool's, at dispatch
    window_seconds      double precision,
    status              text NOT NULL CHECK (status IN ('planned', 'dispatched', 'retry_wait', 'in_doubt', 'succeeded',
                            'failed', 'dead', 'revoked', 'cancelled', 'skipped')),
    decision_id         uuid REFERENCES signoff.decisions,
    rule                text,
    policy_digest       text,
    attempts            integer NOT NULL DEFAULT 0,
    fence               bigint,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_dispatched_at timestamptz,
    doubt_since         timestamptz,
    retry_at            timestamptz,
    result_type         text,
    result              bytea,
    error_code          text,
    error_message       text,
    provider_reference  text,
    ended_at            timestamptz,
    -- Replayed after its job was told or ended: runs by itself, under a lease of its own.
    alone               boolean NOT NULL DEFAULT false,
    lease_until         timestamptz,
    offered_at          timestamptz,
    -- In doubt, and a worker has found no way out of it: not offered any more.
    awaits_operator     boolean NOT NULL DEFAULT false,
    -- By a decision, or by a rule that allows it: never by nothing.
    CHECK (decision_id IS NOT NULL OR (rule IS NOT NULL AND policy_digest IS NOT NULL)),
    -- While in doubt, no row may claim that it did not happen.
    CHECK (doubt_since IS NULL OR status NOT IN ('failed', 'dead', 'cancelled', 'revoked', 'planned')),
    CHECK (status <> 'in_doubt' OR doubt_since IS NOT NULL),
    CHECK (class IS NOT NULL OR attempts = 0)
) WITH (fillfactor = 80);
CREATE INDEX effects_of_job ON signoff.effects (job_id);
CREATE INDEX effects_alone ON signoff.effects (created_at)
    WHERE alone AND status IN ('planned', 'retry_wait', 'in_doubt') AND NOT awaits_operator;
CREATE INDEX effects_open ON signoff.effects (created_at) WHERE status IN ('in_doubt', 'dead', 'failed');
-- Of its own: the dispatcher looks several times a second, and what has failed stays for good.
CREATE INDEX effects_dispatched ON signoff.effects (created_at) WHERE status = 'dispatched';

-- One row per try, written before the first byte leaves; the outcome is filled in once.
CREATE TABLE signoff.attempts (
    operation_id  text NOT NULL REFERENCES signoff.effects,
    number        integer NOT NULL,
    generation    integer NOT NULL,
    fence         bigint NOT NULL,
    worker        text NOT NULL,
    dispatched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome       text,
    message       text,
    ended_at      timestamptz,
    PRIMARY KEY (operation_id, number)
);

-- Every transition that is not an attempt's own, with who did it: append-only.
CREATE TABLE signoff.effect_events (
    position     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation_id text NOT NULL REFERENCES signoff.effects,
    from_status  text NOT NULL,
    to_status    text NOT NULL,
    actor        text NOT NULL,
    reason       text NOT NULL,
    reference    text,
    at           timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX effect_events_of ON signoff.effect_events (operation_id);

-- What came back too late to be recorded under its fence: append-only.
CREATE TABLE signoff.evidence (
    position     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation_id text NOT NULL,
    fence        bigint NOT NULL,
    worker       text NOT NULL,
    outcome      text NOT NULL,
    message      text,
    result_type  text,
    result       bytea,
    at           timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX evidence_of ON signoff.evidence (operation_id);

CREATE TABLE signoff.events (
    position     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Positions are given before the commit; with the transaction's id a reader can tell what may still appear.
    tx           xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id           uuid NOT NULL,
    job_id       uuid,
    sequence     bigint NOT NULL,
    type         text NOT NULL,
    subject      text NOT NULL,
    actor        text NOT NULL,
    data         json NOT NULL,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at timestamptz
);
CREATE INDEX events_unpublished ON signoff.events (position) WHERE published_at IS NULL;
CREATE INDEX events_in_order ON signoff.events (tx, position);
CREATE INDEX events_of_job ON signoff.events (job_id, sequence);
CREATE INDEX events_by_time ON signoff.events (at);

CREATE TABLE signoff.poison_messages (
    position    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream      text NOT NULL,
    entry_id    text NOT NULL,
    body        bytea NOT NULL,
    error       text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (stream, entry_id)
);

CREATE FUNCTION signoff.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.decisions
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.effect_events
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.evidence
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change();
