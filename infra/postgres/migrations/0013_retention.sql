-- Retention: what a call said and what came back of it may go once it is over. That it was, by whom it was allowed, its
-- digest and how it ended stay.

ALTER TABLE signoff.items ADD COLUMN purged_at timestamptz;
ALTER TABLE signoff.revisions ADD COLUMN purged_at timestamptz;
ALTER TABLE signoff.decisions ADD COLUMN purged_at timestamptz;
ALTER TABLE signoff.evidence ADD COLUMN purged_at timestamptz;
-- What is purged is gone, and stays so.
ALTER TABLE signoff.effects
    ADD CHECK (purged_at IS NULL OR (args IS NULL AND result IS NULL AND result_type IS NULL AND changed IS NULL));

-- The one change to these that is let through: exactly the payload goes, once, after an effect that it belongs to was
-- purged. Everything else of the row must be as it was.
CREATE FUNCTION signoff.refuse_change_but_purge() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    purged  text;
    belongs boolean;
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.purged_at IS NULL AND NEW.purged_at IS NOT NULL THEN
        OLD.purged_at := NEW.purged_at;
        IF TG_TABLE_NAME = 'evidence' THEN
            OLD.result_type := NULL;
            OLD.result := NULL;
            belongs := EXISTS (SELECT FROM signoff.effects
                WHERE operation_id = NEW.operation_id AND purged_at IS NOT NULL);
        ELSE
            IF TG_TABLE_NAME = 'decisions' THEN
                OLD.args := NULL;
            ELSE
                OLD.args := '{}';
                OLD.description := '';
                OLD.shown := NULL;
            END IF;
            belongs := EXISTS (SELECT FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id
                JOIN signoff.effects e ON e.job_id = r.job_id WHERE i.id = NEW.item_id AND e.purged_at IS NOT NULL);
        END IF;
        purged := OLD::text;
        IF belongs AND purged = NEW::text THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;

DROP TRIGGER append_only ON signoff.decisions;
DROP TRIGGER append_only ON signoff.revisions;
DROP TRIGGER append_only ON signoff.evidence;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.decisions
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change_but_purge();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.revisions
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change_but_purge();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.evidence
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change_but_purge();

CREATE FUNCTION signoff.audit_purge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (act, actor, job_id, digests, body)
    VALUES ('effect.purged', signoff.database_actor(), NEW.job_id, signoff.digest_bytes(NEW.digest),
        json_strip_nulls(json_build_object('operation', NEW.operation_id, 'status', NEW.status,
            'result', encode(sha256(OLD.result), 'hex'))));
    RETURN NULL;
END $$;
CREATE TRIGGER audit_purged AFTER UPDATE OF purged_at ON signoff.effects FOR EACH ROW
    WHEN (OLD.purged_at IS DISTINCT FROM NEW.purged_at) EXECUTE FUNCTION signoff.audit_purge();
