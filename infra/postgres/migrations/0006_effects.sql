-- Effects of every class, what is asked of providers, results that are kept aside, and alarms.

ALTER TABLE signoff.effects
    DROP CONSTRAINT effects_class_check,
    ADD CONSTRAINT effects_class_check
        CHECK (class IN ('read', 'transactional', 'idempotent', 'keyed', 'queryable', 'opaque')),
    ALTER COLUMN args DROP NOT NULL,
    ADD COLUMN last_dispatched_at timestamptz,
    -- Its tool declares that an operator looks at this end before the agent is told.
    ADD COLUMN holds             boolean NOT NULL DEFAULT false,
    -- Why nothing is done although it could be: until `retry_at`.
    ADD COLUMN waits_for         text CHECK (waits_for IN ('pause', 'circuit', 'limit', 'answer')),
    -- Whose limits and circuit it counts for; the tool's, at dispatch.
    ADD COLUMN provider          text,
    -- In doubt, and the provider is to be asked about it by itself, beside any run: from then on.
    ADD COLUMN probe_at          timestamptz,
    -- What had changed when it last went back to review, and on which decision it stood then.
    ADD COLUMN changed           text,
    ADD COLUMN changed_decision  uuid,
    -- A compensation, or the same call once more: of which effect.
    ADD COLUMN origin            text CHECK (origin IN ('again', 'compensation')),
    ADD COLUMN origin_operation  text REFERENCES signoff.effects,
    ADD COLUMN retention_seconds double precision,
    -- Arguments and result are gone; who it was for, what it was (the digest) and how it ended stay.
    ADD COLUMN purged_at         timestamptz,
    ADD CHECK (args IS NOT NULL OR purged_at IS NOT NULL),
    ADD CHECK (purged_at IS NULL OR ended_at IS NOT NULL),
    ADD CHECK ((origin IS NULL) = (origin_operation IS NULL)),
    ADD CHECK (waits_for IS NULL OR retry_at IS NOT NULL);
CREATE INDEX effects_to_probe ON signoff.effects (probe_at) WHERE probe_at IS NOT NULL;
CREATE INDEX effects_to_purge ON signoff.effects (ended_at)
    WHERE retention_seconds IS NOT NULL AND purged_at IS NULL AND ended_at IS NOT NULL;
-- Lists begin with the newest.
CREATE INDEX effects_by_time ON signoff.effects (created_at, operation_id);
CREATE INDEX effects_of_origin ON signoff.effects (origin_operation) WHERE origin_operation IS NOT NULL;

-- Which try it belongs to, and whether it has settled the effect.
ALTER TABLE signoff.evidence
    ADD COLUMN attempt integer,
    ADD COLUMN settled boolean NOT NULL DEFAULT false;

-- Each time that a provider was asked what became of an effect: append-only.
CREATE TABLE signoff.probes (
    position     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation_id text NOT NULL REFERENCES signoff.effects,
    attempt      integer NOT NULL,
    actor        text NOT NULL,
    finding      text NOT NULL CHECK (finding IN ('applied', 'refused', 'not_found', 'unknown')),
    reference    text,
    message      text,
    at           timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX probes_of ON signoff.probes (operation_id);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.probes
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON signoff.probes
    FOR EACH STATEMENT EXECUTE FUNCTION signoff.refuse_change();

-- Results that are too large for the agent: it is told their beginning, and where the rest is.
CREATE TABLE signoff.results_aside (
    operation_id text PRIMARY KEY REFERENCES signoff.effects,
    result_type  text NOT NULL,
    result       bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What a person has to look at although nothing waits for it: it may have happened twice, or other than recorded.
CREATE TABLE signoff.alarms (
    id              uuid PRIMARY KEY,
    kind            text NOT NULL CHECK (kind IN ('duplicate', 'contradiction')),
    operation_id    text NOT NULL REFERENCES signoff.effects,
    job_id          uuid NOT NULL REFERENCES signoff.jobs,
    message         text NOT NULL,
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    acknowledged_at timestamptz,
    acknowledged_by text,
    CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL))
);
CREATE INDEX alarms_open ON signoff.alarms (at) WHERE acknowledged_at IS NULL;
CREATE INDEX alarms_of ON signoff.alarms (operation_id);

CREATE FUNCTION signoff.audit_probe() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, body)
    SELECT 'effect.probed', NEW.actor, e.job_id, json_strip_nulls(json_build_object('operation', e.operation_id,
        'attempt', NEW.attempt, 'finding', NEW.finding, 'reference', NEW.reference,
        'message', signoff.text_digest(NEW.message)))
    FROM signoff.effects e WHERE e.operation_id = NEW.operation_id;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.probes FOR EACH ROW EXECUTE FUNCTION signoff.audit_probe();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.alarms FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('alarm', 'id', 'kind', 'operation_id', 'acknowledged_at');
