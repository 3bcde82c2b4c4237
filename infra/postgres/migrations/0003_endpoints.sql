-- Endpoints that speak for some, with secrets that overlap; tokens that end.

-- Groups, and persons as '@name'; '*' alone is everybody, which is what an endpoint could do before.
ALTER TABLE signoff.endpoints
    ADD COLUMN speaks_for text[] NOT NULL DEFAULT '{*}',
    ADD COLUMN dialect text,
    ADD COLUMN created_by text,    -- null: by whoever administers the database
    ADD COLUMN revoked_by text;
ALTER TABLE signoff.endpoints ALTER COLUMN speaks_for DROP DEFAULT;

CREATE TABLE signoff.endpoint_secrets (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    endpoint     text NOT NULL REFERENCES signoff.endpoints,
    secret       text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by   text,
    ends_at      timestamptz,
    last_used_at timestamptz
);
CREATE INDEX endpoint_secrets_by_endpoint ON signoff.endpoint_secrets (endpoint);

INSERT INTO signoff.endpoint_secrets (endpoint, secret, created_at)
SELECT name, secret, created_at FROM signoff.endpoints;

ALTER TABLE signoff.endpoints DROP COLUMN secret;

ALTER TABLE signoff.tokens ADD COLUMN ends_at timestamptz;
