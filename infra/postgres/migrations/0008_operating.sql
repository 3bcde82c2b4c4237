-- What operators do: each act once for its request id, with its reason; and findings that wait for a second person.

CREATE TABLE signoff.operator_acts (
    position   bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    actor      text NOT NULL,
    request_id text NOT NULL,
    act        text NOT NULL,
    subject    text NOT NULL,
    job_id     uuid,
    reason     text NOT NULL,
    digest     text NOT NULL,  -- of the request: the same id with another is refused
    body       json NOT NULL,
    outcome    json NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (actor, request_id)
);
CREATE INDEX operator_acts_of ON signoff.operator_acts (subject);
-- What a plan of replays has done already.
CREATE INDEX operator_acts_of_plan ON signoff.operator_acts ((body->>'plan')) WHERE body->>'plan' IS NOT NULL;
CREATE INDEX operator_acts_of_job ON signoff.operator_acts (job_id) WHERE job_id IS NOT NULL;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.operator_acts
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON signoff.operator_acts
    FOR EACH STATEMENT EXECUTE FUNCTION signoff.refuse_change();

-- What one person has found out about an effect whose tool the policy calls high-risk, until another has confirmed it.
CREATE TABLE signoff.settlements (
    id           uuid PRIMARY KEY,
    operation_id text NOT NULL REFERENCES signoff.effects,
    act          text NOT NULL CHECK (act IN ('resolve', 'skip')),
    body         json NOT NULL,
    digest       text NOT NULL,
    reason       text NOT NULL,
    -- Where the effect was when it was found out: if it has moved since, nobody can confirm it.
    status       text NOT NULL,
    attempts     integer NOT NULL,
    proposed_by  text NOT NULL REFERENCES signoff.principals,
    proposed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ending       text CHECK (ending IN ('confirmed', 'withdrawn', 'outdated')),
    ended_by     text,
    ended_at     timestamptz,
    CHECK ((ending IS NULL) = (ended_at IS NULL)),
    CHECK (ending IS DISTINCT FROM 'confirmed' OR ended_by <> proposed_by)
);
CREATE UNIQUE INDEX one_open_settlement ON signoff.settlements (operation_id) WHERE ending IS NULL;

CREATE FUNCTION signoff.audit_operator_act() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, digests, body)
    VALUES ('operator.' || NEW.act, NEW.actor, NEW.job_id, signoff.digest_bytes(NEW.digest),
        json_build_object('subject', NEW.subject, 'request', NEW.request_id,
            'reason', signoff.text_digest(NEW.reason)));
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.operator_acts
    FOR EACH ROW EXECUTE FUNCTION signoff.audit_operator_act();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.settlements FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('settlement', 'id', 'operation_id', 'act', 'proposed_by', 'ending',
        'ended_by');
