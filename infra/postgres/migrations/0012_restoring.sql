-- Restored backups: which database this is, what was lost with each restore, and what may have left meanwhile.

-- Goes along with every backup and copy: by it a restored database is told from a new one.
CREATE TABLE signoff.installation (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO signoff.installation DEFAULT VALUES;

-- Each time that a backup of `since` was put in place of the database: append-only. What happened from then to
-- `created_at` is in nobody's ledger.
CREATE TABLE signoff.restores (
    id         uuid PRIMARY KEY,
    since      timestamptz NOT NULL,
    reason     text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (since <= created_at)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.restores
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON signoff.restores
    FOR EACH STATEMENT EXECUTE FUNCTION signoff.refuse_change();
CREATE TRIGGER audit AFTER INSERT ON signoff.restores FOR EACH ROW
    EXECUTE FUNCTION signoff.audit_administration('restore', 'id', 'since');

-- A call that a job from before the restore makes only now may have been made in the lost time.
-- The very call that its review asked about had the same key then: a keyed one counts as sent when the lost time began,
-- with an outcome that nobody knows, and of a queryable one the provider is asked. Of an edit, or of a call that no
-- review knew of then, nobody can tell under which key it left. An operator has to find out about these, and about
-- every opaque one. What is harmless when repeated is left alone.
CREATE FUNCTION signoff.doubt_after_restore() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lost     record;
    declared text := coalesce(NEW.class,
        (SELECT tools -> NEW.tool ->> 'class' FROM signoff.agents WHERE name = NEW.agent), 'opaque');
    as_asked boolean;
BEGIN
    SELECT min(r.since) AS since, max(r.created_at) AS until INTO lost
    FROM signoff.restores r JOIN signoff.jobs j ON j.id = NEW.job_id
    JOIN signoff.threads t ON t.id = j.thread_id LEFT JOIN signoff.threads root ON root.id = t.lineage_root
    -- A fork has the operations of what it was forked from, whenever that was.
    WHERE j.created_at < r.created_at OR (t.forked_from IS NOT NULL AND root.created_at < r.created_at);
    IF lost.since IS NULL OR NEW.status <> 'planned' OR declared IN ('read', 'transactional', 'idempotent') THEN
        RETURN NEW;
    END IF;
    as_asked := EXISTS (SELECT FROM signoff.decisions d JOIN signoff.items i ON i.id = d.item_id
        JOIN signoff.reviews v ON v.id = i.review_id
        WHERE d.id = NEW.decision_id AND i.operation_id = NEW.operation_id AND v.created_at < lost.until);
    NEW.status := CASE WHEN as_asked AND declared = 'keyed' THEN 'retry_wait' ELSE 'in_doubt' END;
    NEW.probe_at := CASE WHEN as_asked AND declared = 'queryable' THEN clock_timestamp() END;
    NEW.awaits_operator := NEW.status = 'in_doubt' AND NEW.probe_at IS NULL;
    NEW.doubt_since := clock_timestamp();
    NEW.first_dispatched_at := lost.since;
    NEW.last_dispatched_at := lost.until;
    NEW.error_code := 'restored';
    NEW.error_message := 'a backup was restored: it may have happened between '
        || date_trunc('second', lost.since) || ' and ' || date_trunc('second', lost.until);
    RETURN NEW;
END $$;
CREATE TRIGGER doubt_after_restore BEFORE INSERT ON signoff.effects
    FOR EACH ROW EXECUTE FUNCTION signoff.doubt_after_restore();

CREATE FUNCTION signoff.tell_of_doubt_after_restore() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.effect_events (operation_id, from_status, to_status, actor, reason)
    VALUES (NEW.operation_id, 'planned', NEW.status, signoff.database_actor(), NEW.error_message);
    RETURN NULL;
END $$;
CREATE TRIGGER tell_of_doubt_after_restore AFTER INSERT ON signoff.effects FOR EACH ROW
    WHEN (NEW.error_code = 'restored') EXECUTE FUNCTION signoff.tell_of_doubt_after_restore();

-- Nobody pays for these until a restore has been told.
ALTER TABLE signoff.effects
    DISABLE TRIGGER doubt_after_restore,
    DISABLE TRIGGER tell_of_doubt_after_restore;

-- The oldest code that can work on this schema, by the revision that it was written for. A migration that breaks older
-- code raises it; any other leaves it, and the processes of the release before go on beside the new ones.
CREATE TABLE signoff.schema_compatibility (
    oldest text NOT NULL
);
CREATE UNIQUE INDEX one_row ON signoff.schema_compatibility ((true));
INSERT INTO signoff.schema_compatibility VALUES ('0012');
