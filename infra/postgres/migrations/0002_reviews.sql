-- Reviews that hold: authority, several approvals, revisions, ladders, standing approvals.

-- --- who may what --------------------------------------------------------------------------------------

ALTER TABLE signoff.principals DROP CONSTRAINT principals_rights_check;
ALTER TABLE signoff.principals DROP CONSTRAINT principals_check;
ALTER TABLE signoff.principals
    -- Once limited, a person decides only what a grant covers; taking grants away never widens anything.
    ADD COLUMN limited boolean NOT NULL DEFAULT false,
    ADD CHECK (rights <@ ARRAY['submit', 'see', 'review', 'reveal', 'standing', 'operate']),
    -- Only persons decide.
    ADD CHECK (kind = 'person' OR NOT rights && ARRAY['review', 'standing']);

-- What a person may decide: of their own, or in the place of somebody who delegated it.
CREATE TABLE signoff.grants (
    id         uuid PRIMARY KEY,
    person     text NOT NULL REFERENCES signoff.principals,
    delegator  text REFERENCES signoff.principals,
    tools      text[] NOT NULL CHECK (cardinality(tools) > 0),  -- patterns
    condition  text,                                            -- CEL over the call
    expires_at timestamptz,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz,
    revoked_by text,
    CHECK (delegator IS NULL OR expires_at IS NOT NULL),
    CHECK (delegator <> person)
);
CREATE INDEX grants_of ON signoff.grants (person) WHERE revoked_at IS NULL;

-- A principal with all that its authority depends on, as of now; a delegator comes without delegations: one step deep.
CREATE FUNCTION signoff.principal_alone(wanted text) RETURNS json LANGUAGE sql STABLE STRICT AS $$
    SELECT json_build_object('name', p.name, 'kind', p.kind, 'groups', p.groups, 'rights', p.rights,
        'revoked', p.revoked_at IS NOT NULL, 'limited', p.limited,
        'grants', (SELECT coalesce(json_agg(json_build_object('id', g.id, 'tools', g.tools, 'condition', g.condition,
                'expires_at', g.expires_at) ORDER BY g.created_at), '[]')
            FROM signoff.grants g WHERE g.person = p.name AND g.delegator IS NULL AND g.revoked_at IS NULL
                AND (g.expires_at IS NULL OR g.expires_at > clock_timestamp())))
    FROM signoff.principals p WHERE p.name = wanted
$$;
CREATE FUNCTION signoff.principal(wanted text) RETURNS json LANGUAGE sql STABLE STRICT AS $$
    SELECT json_build_object('principal', signoff.principal_alone(wanted),
        'delegations', (SELECT coalesce(json_agg(json_build_object('id', g.id, 'tools', g.tools,
                'condition', g.condition, 'expires_at', g.expires_at,
                'delegator', signoff.principal_alone(g.delegator)) ORDER BY g.created_at), '[]')
            FROM signoff.grants g WHERE g.person = wanted AND g.delegator IS NOT NULL AND g.revoked_at IS NULL
                AND g.expires_at > clock_timestamp()))
$$;

-- --- reviews and items -----------------------------------------------------------------------------------

ALTER TABLE signoff.reviews
    ADD COLUMN claimed_by text REFERENCES signoff.principals,
    ADD COLUMN claimed_until timestamptz,
    ADD CHECK ((claimed_by IS NULL) = (claimed_until IS NULL));

ALTER TABLE signoff.items
    ADD COLUMN revision integer NOT NULL DEFAULT 1,  -- above 1 the call is the one of that row in signoff.revisions
    ADD COLUMN decision_id uuid,                     -- the decision that ended it
    ADD COLUMN terms json,                           -- what the rule asks beyond one approval; NULL: nothing
    ADD COLUMN shown json,                           -- facts that the rule shows beside the call
    ADD COLUMN escalated_to text[],                  -- reviewers that the ladder has added
    ADD COLUMN replaced boolean NOT NULL DEFAULT false,  -- ... in place of those of the rule
    ADD COLUMN assigned_to text[],                   -- of those who may decide, the only ones who are to
    ADD COLUMN rung integer NOT NULL DEFAULT 0,      -- rungs of the ladder that are behind
    ADD COLUMN next_rung_at timestamptz;
CREATE INDEX items_rungs ON signoff.items (next_rung_at) WHERE status = 'open' AND next_rung_at IS NOT NULL;

-- A call as it was amended while it waited: append-only. Revision 1 is the item's own row.
CREATE TABLE signoff.revisions (
    item_id                    uuid NOT NULL REFERENCES signoff.items,
    revision                   integer NOT NULL CHECK (revision > 1),
    proposed_by                text NOT NULL REFERENCES signoff.principals,
    operation_id               text NOT NULL,
    edits                      integer NOT NULL,
    tool                       text NOT NULL,
    args                       json NOT NULL,
    digest                     text NOT NULL,
    description                text NOT NULL,
    rule                       text NOT NULL,
    reason                     text NOT NULL,
    policy_digest              text NOT NULL,
    allowed_decisions          text[] NOT NULL,
    reviewers                  text[] NOT NULL,
    args_schema                jsonb,
    terms                      json,
    shown                      json,
    approval_valid_for_seconds double precision,
    created_at                 timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (item_id, revision)
);
CREATE INDEX revisions_of_operation ON signoff.revisions (operation_id);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.revisions
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change();

-- Several people may have decided one item; the row that items.decision_id names ended it.
ALTER TABLE signoff.decisions DROP CONSTRAINT decisions_item_id_key;
ALTER TABLE signoff.decisions
    ADD COLUMN revision integer NOT NULL DEFAULT 1,  -- of the call that was decided on
    ADD COLUMN on_behalf_of text REFERENCES signoff.principals,
    ADD COLUMN tool text,                            -- of the call as finally allowed; NULL: the item's
    ADD COLUMN counts boolean NOT NULL DEFAULT true, -- false: an edit by somebody who may not allow the amended call
    ADD CHECK (on_behalf_of <> reviewer),
    ADD UNIQUE (item_id, revision, reviewer);

-- What was done with a review beside deciding it: append-only.
CREATE TABLE signoff.review_acts (
    position  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    review_id uuid NOT NULL REFERENCES signoff.reviews,
    item_id   uuid REFERENCES signoff.items,
    act       text NOT NULL CHECK (act IN ('claimed', 'released', 'reassigned', 'commented', 'cancelled', 'reminded',
                  'escalated', 'amended')),
    actor     text NOT NULL,
    message   text,
    data      json,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX review_acts_of ON signoff.review_acts (review_id);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON signoff.review_acts
    FOR EACH ROW EXECUTE FUNCTION signoff.refuse_change();

-- --- standing approvals ------------------------------------------------------------------------------------

CREATE TABLE signoff.standing_approvals (
    id         uuid PRIMARY KEY,
    agent      text NOT NULL,
    tool       text NOT NULL,
    verdict    text NOT NULL CHECK (verdict IN ('allow', 'deny')),
    condition  text,
    job_id     uuid REFERENCES signoff.jobs,
    thread_id  text REFERENCES signoff.threads,
    expires_at timestamptz,
    reason     text,
    created_by text NOT NULL REFERENCES signoff.principals,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz,
    revoked_by text,
    -- For this job, this thread, or a stretch of time.
    CHECK (job_id IS NOT NULL OR thread_id IS NOT NULL OR expires_at IS NOT NULL)
);
CREATE INDEX standing_approvals_of ON signoff.standing_approvals (agent) WHERE revoked_at IS NULL;

ALTER TABLE signoff.effects
    ADD COLUMN standing_id uuid REFERENCES signoff.standing_approvals,
    ADD COLUMN hidden text[];  -- paths of arguments that are masked for those without the right
