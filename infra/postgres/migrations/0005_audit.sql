-- The audit: one row for each act, written by the database itself, and the seals that chain them.

CREATE TABLE signoff.audit (
    position bigint GENERATED ALWAYS AS IDENTITY,
    -- Positions are given before the commit; with the transaction's id a sealer can tell what may still appear.
    tx       xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    act      text NOT NULL,
    actor    text NOT NULL,
    job_id   uuid,
    digests  bytea,          -- of the call or the request that it is about; behind it, of what reviewers were shown
    body     json NOT NULL,  -- ids, digests and names; never a value of an argument, never a secret
    PRIMARY KEY (tx, position)  -- the order of sealing; an index less than with a key on the position alone
);
CREATE INDEX audit_of_job ON signoff.audit (job_id) WHERE job_id IS NOT NULL;

-- What was sealed together, in this order. No writer waits for another: rows are sealed after they were committed.
CREATE TABLE signoff.audit_seals (
    number        bigint PRIMARY KEY,
    sealed_at     timestamptz NOT NULL,
    positions     bigint[] NOT NULL CHECK (cardinality(positions) > 0),
    hashes        bytea NOT NULL,  -- 32 bytes for each of the positions
    previous      bytea NOT NULL,
    hash          bytea NOT NULL,
    -- The cursor: what lies behind it, in the order of (tx, position), is not sealed yet.
    last_tx       xid8 NOT NULL,
    last_position bigint NOT NULL,
    -- Restored into another server, transactions are counted anew: behind this position `tx` has its own order.
    era           bigint NOT NULL DEFAULT 0,
    CHECK (octet_length(hashes) = 32 * cardinality(positions))
);

-- --- nobody else writes ------------------------------------------------------------------------------------

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.audit
    FOR EACH STATEMENT EXECUTE FUNCTION signoff.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.audit_seals
    FOR EACH STATEMENT EXECUTE FUNCTION signoff.refuse_change();

-- Every append-only table there is by now.
DO $$
DECLARE
    guarded regclass;
BEGIN
    FOR guarded IN SELECT tgrelid FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE tgname = 'append_only' AND c.relnamespace = 'signoff'::regnamespace
    LOOP
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %s
            FOR EACH STATEMENT EXECUTE FUNCTION signoff.refuse_change()', guarded);
    END LOOP;
END $$;

CREATE FUNCTION signoff.refuse_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is written by the database itself', TG_TABLE_NAME;
END $$;
CREATE TRIGGER written_by_triggers BEFORE INSERT ON signoff.audit
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION signoff.refuse_insert();

-- --- digests -----------------------------------------------------------------------------------------------

CREATE FUNCTION signoff.text_digest(value text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT encode(sha256(convert_to(value, 'UTF8')), 'hex')
$$;

-- As bytes: half as long. What is no SHA-256 in hex is hashed.
CREATE FUNCTION signoff.digest_bytes(value text) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN value ~ '^[0-9a-f]{64}$' THEN decode(value, 'hex') ELSE sha256(convert_to(value, 'UTF8')) END
$$;

-- What a reviewer was shown, and what it was judged by: can be computed again from the row while it is as it was.
CREATE FUNCTION signoff.shown_digest(i signoff.items, policy_digest text) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(json_build_array(i.operation_id, i.tool, i.digest, i.description, i.rule, i.reason,
        policy_digest, i.allowed_decisions, i.reviewers, i.args_schema, i.terms, i.shown)::text, 'UTF8'))
$$;
CREATE FUNCTION signoff.shown_digest(r signoff.revisions) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(json_build_array(r.operation_id, r.tool, r.digest, r.description, r.rule, r.reason,
        r.policy_digest, r.allowed_decisions, r.reviewers, r.args_schema, r.terms, r.shown)::text, 'UTF8'))
$$;

-- --- what was proposed, shown, decided, finally allowed, ran, came back -----------------------------------------

CREATE FUNCTION signoff.audit_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, digests, body)
    SELECT 'item.proposed', j.agent, j.id,
        signoff.digest_bytes(NEW.digest) || signoff.shown_digest(NEW, r.policy_digest),
        json_strip_nulls(json_build_object('item', NEW.id, 'tool', NEW.tool))
    FROM signoff.reviews r JOIN signoff.jobs j ON j.id = r.job_id WHERE r.id = NEW.review_id;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.items FOR EACH ROW EXECUTE FUNCTION signoff.audit_item();

CREATE FUNCTION signoff.audit_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, digests, body)
    SELECT 'item.revised', NEW.proposed_by, r.job_id,
        signoff.digest_bytes(NEW.digest) || signoff.shown_digest(NEW),
        json_strip_nulls(json_build_object('item', i.id, 'revision', NEW.revision, 'tool', NEW.tool))
    FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id WHERE i.id = NEW.item_id;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.revisions FOR EACH ROW EXECUTE FUNCTION signoff.audit_revision();

CREATE FUNCTION signoff.audit_decision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, digests, body)
    SELECT 'item.decided', NEW.reviewer, r.job_id, signoff.digest_bytes(NEW.digest), json_strip_nulls(
        json_build_object('decision', NEW.id, 'item', i.id, 'review', r.id, 'revision', nullif(NEW.revision, 1),
            'type', NEW.type, 'operation', NEW.operation_id, 'tool', coalesce(NEW.tool, i.tool), 'door', NEW.door,
            'on_behalf_of', NEW.on_behalf_of, 'message', signoff.text_digest(NEW.message),
            'next_step', NEW.next_step, 'counts', CASE WHEN NOT NEW.counts THEN false END))
    FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id WHERE i.id = NEW.item_id;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.decisions FOR EACH ROW EXECUTE FUNCTION signoff.audit_decision();

CREATE FUNCTION signoff.audit_dispatch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, digests, body)
    SELECT 'attempt.dispatched', NEW.worker, e.job_id, signoff.digest_bytes(e.digest), json_strip_nulls(
        json_build_object('operation', e.operation_id, 'attempt', NEW.number,
            'generation', nullif(NEW.generation, 0), 'tool', e.tool, 'decision', e.decision_id,
            'standing', e.standing_id, 'rule', e.rule, 'policy', e.policy_digest))
    FROM signoff.effects e WHERE e.operation_id = NEW.operation_id;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.attempts FOR EACH ROW EXECUTE FUNCTION signoff.audit_dispatch();

CREATE FUNCTION signoff.audit_outcome() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, body)
    SELECT 'attempt.ended', NEW.worker, e.job_id, json_strip_nulls(json_build_object('operation', e.operation_id,
        'attempt', NEW.number, 'outcome', NEW.outcome, 'status', e.status, 'reference', e.provider_reference,
        'result', encode(sha256(e.result), 'hex'), 'message', signoff.text_digest(NEW.message)))
    FROM signoff.effects e WHERE e.operation_id = NEW.operation_id;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_outcome AFTER UPDATE ON signoff.attempts FOR EACH ROW
    WHEN (OLD.outcome IS DISTINCT FROM NEW.outcome) EXECUTE FUNCTION signoff.audit_outcome();

CREATE FUNCTION signoff.audit_effect_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, body)
    SELECT 'effect.moved', NEW.actor, e.job_id, json_strip_nulls(json_build_object('operation', e.operation_id,
        'from', NEW.from_status, 'to', NEW.to_status, 'reference', NEW.reference,
        'reason', signoff.text_digest(NEW.reason)))
    FROM signoff.effects e WHERE e.operation_id = NEW.operation_id;
    RETURN NULL;
END $$;
-- Success is what the end of its attempt says already.
CREATE TRIGGER audit AFTER INSERT ON signoff.effect_events FOR EACH ROW
    WHEN (NEW.from_status <> 'dispatched' OR NEW.to_status <> 'succeeded')
    EXECUTE FUNCTION signoff.audit_effect_event();

CREATE FUNCTION signoff.audit_evidence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, body)
    VALUES ('evidence.kept', NEW.worker,
        (SELECT job_id FROM signoff.effects WHERE operation_id = NEW.operation_id),
        json_strip_nulls(json_build_object('operation', NEW.operation_id, 'evidence', NEW.position,
            'outcome', NEW.outcome, 'result', encode(sha256(NEW.result), 'hex'),
            'message', signoff.text_digest(NEW.message))));
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.evidence FOR EACH ROW EXECUTE FUNCTION signoff.audit_evidence();

-- --- reviews and jobs ----------------------------------------------------------------------------------------

CREATE FUNCTION signoff.audit_review_act() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, body)
    SELECT 'review.' || NEW.act, NEW.actor, r.job_id, json_strip_nulls(json_build_object('review', r.id,
        'item', NEW.item_id, 'message', signoff.text_digest(NEW.message),
        'data', signoff.text_digest(NEW.data::text)))
    FROM signoff.reviews r WHERE r.id = NEW.review_id;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.review_acts
    FOR EACH ROW EXECUTE FUNCTION signoff.audit_review_act();

-- That a review is decided, its items' decisions say. Any other end is told at the commit: the event that says who it
-- was is written after the review was closed.
CREATE FUNCTION signoff.audit_closed_review() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, body)
    VALUES ('review.' || NEW.status,
        coalesce((SELECT actor FROM signoff.events WHERE job_id = NEW.job_id AND tx = pg_current_xact_id()
                AND subject = 'reviews/' || NEW.id ORDER BY sequence DESC LIMIT 1),
            signoff.database_actor()),
        NEW.job_id, json_build_object('review', NEW.id,
            'items', (SELECT json_agg(id ORDER BY ordinal) FROM signoff.items WHERE review_id = NEW.id)));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER audit AFTER UPDATE ON signoff.reviews DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND NEW.status <> 'decided')
    EXECUTE FUNCTION signoff.audit_closed_review();

CREATE FUNCTION signoff.audit_accepted_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, digests, body)
    VALUES ('job.accepted', NEW.submitted_by, NEW.id, signoff.digest_bytes(NEW.request_digest),
        json_build_object('door', NEW.door));
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON signoff.jobs FOR EACH ROW EXECUTE FUNCTION signoff.audit_accepted_job();

-- A bad end, a hold, or the way out of one; that a job went well is nobody's act, and its event tells of it. Who it was
-- is in the event of the same statement, or the worker that ended it.
CREATE FUNCTION signoff.audit_moved_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, body)
    VALUES ('job.' || CASE NEW.status WHEN 'awaiting_operator' THEN 'held' WHEN 'queued' THEN 'queued_again'
            ELSE NEW.status END,
        coalesce(CASE WHEN NEW.status = 'failed' THEN OLD.lease_owner END,
            (SELECT actor FROM signoff.events WHERE job_id = NEW.id AND sequence = NEW.event_sequence
                AND tx = pg_current_xact_id()),
            NEW.cancel_requested_by, signoff.database_actor()),
        NEW.id, json_strip_nulls(json_build_object('error', NEW.error_code)));
    RETURN NULL;
END $$;
CREATE TRIGGER audit_moved AFTER UPDATE ON signoff.jobs FOR EACH ROW
    WHEN (OLD.status <> NEW.status AND (NEW.status IN ('failed', 'cancelled', 'awaiting_operator')
        OR OLD.status IN ('failed', 'awaiting_operator')))
    EXECUTE FUNCTION signoff.audit_moved_job();

CREATE FUNCTION signoff.audit_cancel_request() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, body)
    VALUES ('job.cancel_requested', coalesce(NEW.cancel_requested_by, signoff.database_actor()), NEW.id, '{}');
    RETURN NULL;
END $$;
CREATE TRIGGER audit_cancel_requested AFTER UPDATE ON signoff.jobs FOR EACH ROW
    WHEN (OLD.cancel_requested_at IS NULL AND NEW.cancel_requested_at IS NOT NULL)
    EXECUTE FUNCTION signoff.audit_cancel_request();

-- --- administration ------------------------------------------------------------------------------------------

-- Who administers: as the session says (SET signoff.actor), or else the user of the database.
CREATE FUNCTION signoff.database_actor() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('signoff.actor', true), ''), 'database:' || session_user)
$$;

-- For any table: EXECUTE FUNCTION signoff.audit_administration('noun', 'column to record', ...). Never name a column
-- that holds a secret or the hash of one: of a changed one the name alone is recorded, as of every other.
CREATE FUNCTION signoff.audit_administration() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    kept     text[] := '{last_used_at,registered_at}';  -- only kept up to date: no act
    was      jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - kept END;
    here     jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - kept ELSE was END;
    recorded jsonb := (SELECT jsonb_object_agg(key, value) FROM jsonb_each(here)
                       WHERE key = ANY (TG_ARGV[1:]) AND value NOT IN ('null', '[]'));
    verb     text := CASE TG_OP WHEN 'INSERT' THEN 'created' WHEN 'DELETE' THEN 'deleted' ELSE 'changed' END;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF was = here THEN
            RETURN NULL;
        END IF;
        IF was ->> 'revoked_at' IS NULL AND here ->> 'revoked_at' IS NOT NULL THEN
            verb := 'revoked';
        ELSIF was ->> 'disabled_at' IS NULL AND here ->> 'disabled_at' IS NOT NULL THEN
            verb := 'disabled';
        END IF;
        recorded := recorded || jsonb_build_object('changed', (SELECT jsonb_agg(key ORDER BY key)
            FROM jsonb_each(here) WHERE was -> key IS DISTINCT FROM value));
    END IF;
    INSERT INTO signoff.audit (act, actor, job_id, body)
    VALUES (TG_ARGV[0] || '.' || verb,
        coalesce(CASE verb WHEN 'created' THEN here ->> 'created_by' WHEN 'revoked' THEN here ->> 'revoked_by'
                WHEN 'disabled' THEN here ->> 'disabled_by' END,
            signoff.database_actor()),
        (here ->> 'job_id')::uuid, recorded);
    RETURN NULL;
END $$;

CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.principals FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('principal', 'name', 'kind', 'groups', 'rights', 'limited',
        'revoked_at');
-- Not each time that one is used.
CREATE TRIGGER audit AFTER INSERT OR DELETE OR UPDATE OF id, principal, hash, ends_at, revoked_at ON signoff.tokens
    FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('token', 'id', 'principal', 'ends_at', 'revoked_at');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.endpoints FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('endpoint', 'name', 'speaks_for', 'dialect', 'revoked_at');
CREATE TRIGGER audit AFTER INSERT OR DELETE OR UPDATE OF id, endpoint, secret, ends_at ON signoff.endpoint_secrets
    FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('endpoint_secret', 'id', 'endpoint', 'ends_at');
-- Not each time that one has gone on. Its target may be a secret: whoever has that of Slack writes there.
CREATE TRIGGER audit AFTER INSERT OR DELETE OR UPDATE OF id, name, kind, target, event_types, filter, template,
        allow_private, disabled_at ON signoff.subscriptions FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('subscription', 'id', 'name', 'kind', 'event_types', 'filter',
        'allow_private', 'disabled_at', 'disabled_reason');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.subscription_secrets FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('subscription_secret', 'position', 'subscription_id', 'ends_at');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.grants FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('grant', 'id', 'person', 'delegator', 'tools', 'condition',
        'expires_at', 'revoked_at');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.standing_approvals FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('standing_approval', 'id', 'agent', 'tool', 'verdict',
        'condition', 'thread_id', 'expires_at', 'revoked_at');
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON signoff.agents FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('agent', 'name', 'policy_digest');
