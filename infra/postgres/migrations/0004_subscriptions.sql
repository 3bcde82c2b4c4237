-- Subscriptions: where events are sent, and the log of what was sent.

CREATE TABLE signoff.subscriptions (
    id              uuid PRIMARY KEY,
    name            text NOT NULL UNIQUE,
    kind            text NOT NULL CHECK (kind IN ('webhook', 'mail', 'slack')),
    target          text NOT NULL,           -- an address of the web, or of mail
    event_types     text[] NOT NULL CHECK (cardinality(event_types) > 0),  -- patterns
    filter          jsonb NOT NULL DEFAULT '{}',
    template        text,                    -- of a notification; NULL: the one of the event's type
    allow_private   boolean NOT NULL DEFAULT false,
    created_by      text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    disabled_at     timestamptz,
    disabled_by     text,
    disabled_reason text,
    -- The last event that was looked at: behind it, in an order that later commits can't change.
    cursor_tx       xid8 NOT NULL,
    cursor_position bigint NOT NULL,
    CHECK ((disabled_at IS NULL) = (disabled_by IS NULL) AND (disabled_at IS NULL) = (disabled_reason IS NULL)),
    CHECK (kind <> 'webhook' OR template IS NULL)
);

-- Each signs until it ends, so that a receiver can change from one to the next.
CREATE TABLE signoff.subscription_secrets (
    position        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription_id uuid NOT NULL REFERENCES signoff.subscriptions,
    secret          text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    ends_at         timestamptz
);
CREATE INDEX subscription_secrets_of ON signoff.subscription_secrets (subscription_id);

-- One event on its way to one subscription.
CREATE TABLE signoff.sendings (
    id              uuid PRIMARY KEY,
    subscription_id uuid NOT NULL REFERENCES signoff.subscriptions,
    event_id        uuid NOT NULL,
    event_cursor    text NOT NULL,
    event_type      text NOT NULL,
    job_id          uuid,
    sequence        bigint NOT NULL,
    body            text NOT NULL,
    status          text NOT NULL CHECK (status IN ('pending', 'sent', 'dead')),
    attempts        integer NOT NULL DEFAULT 0,
    tries           integer NOT NULL DEFAULT 0,  -- attempts that count for the schedule, since it was last asked for
    asked_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_at         timestamptz NOT NULL DEFAULT clock_timestamp(),  -- of a pending one; while it is sent: the lease
    last_at         timestamptz,
    last_status     integer,
    last_error      text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at         timestamptz,
    UNIQUE (subscription_id, event_id)
) WITH (fillfactor = 80);
CREATE INDEX sendings_due ON signoff.sendings (subscription_id, next_at, sequence) WHERE status = 'pending';
CREATE INDEX sendings_of_job ON signoff.sendings (subscription_id, job_id, sequence) WHERE status = 'pending';
CREATE INDEX sendings_dead ON signoff.sendings (subscription_id) WHERE status = 'dead';
CREATE INDEX sendings_sent ON signoff.sendings (sent_at) WHERE status = 'sent';
CREATE INDEX sendings_by_time ON signoff.sendings (subscription_id, created_at, id);
