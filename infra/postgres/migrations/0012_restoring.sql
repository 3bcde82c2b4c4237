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
-- The very call that its review asked about has had the same key then: it counts as sent when the lost time began, with
-- an outcome that nobody knows, and the tool's class says what follows. Of an edit, or of a call that no review of then
-- knew of, nobody can tell under which key it left: an operator has to find out, unless repeating it is harmless.
CREATE FUNCTION signoff.doubt_after_restore() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    lost  record;
    as_asked boolean;
BEGIN
    SELECT min(r.since) AS since, max(r.created_at) AS until INTO lost
    FROM signoff.restores r JOIN signoff.jobs j ON j.id = NEW.job_id AND j.created_at < r.created_at;
    IF lost.since IS NULL OR NEW.status <> 'planned' OR NEW.class IN ('read', 'transactional', 'idempotent') THEN
        RETURN NEW;
    END IF;
    as_asked := EXISTS (SELECT FROM signoff.decisions d JOIN signoff.items i ON i.id = d.item_id
        JOIN signoff.reviews v ON v.id = i.review_id
        WHERE d.id = NEW.decision_id AND i.operation_id = NEW.operation_id AND v.created_at < lost.until);
    NEW.status := CASE WHEN as_asked THEN 'retry_wait' ELSE 'in_doubt' END;
    NEW.awaits_operator := NOT as_asked;
    NEW.doubt_since := clock_timestamp();
    NEW.first_dispatched_at := lost.since;
    NEW.last_dispatched_at := lost.until;
    NEW.error_code := 'restored';
    NEW.error_message := 'a backup was restored: it may have been sent between ' || lost.since || ' and ' || lost.until;
    RETURN NEW;
END $$;
CREATE TRIGGER doubt_after_restore BEFORE INSERT ON signoff.effects
    FOR EACH ROW EXECUTE FUNCTION signoff.doubt_after_restore();
-- Nobody pays for it until a restore has been told.
ALTER TABLE signoff.effects DISABLE TRIGGER doubt_after_restore;

-- The oldest code that can work on this schema, by the revision that it was written for. A migration that breaks older
-- code raises it; any other leaves it, and the processes of the release before go on beside the new ones.
CREATE TABLE signoff.schema_compatibility (
    oldest text NOT NULL
);
CREATE UNIQUE INDEX one_row ON signoff.schema_compatibility ((true));
INSERT INTO signoff.schema_compatibility VALUES ('0012');
