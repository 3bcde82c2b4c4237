-- Dead letters that are no row of their own elsewhere: what became of messages that could not be read.

ALTER TABLE signoff.poison_messages
    ADD COLUMN settlement text CHECK (settlement IN ('requeued', 'discarded')),
    ADD COLUMN settled_by text,
    ADD COLUMN settled_at timestamptz,
    ADD CHECK ((settlement IS NULL) = (settled_at IS NULL) AND (settlement IS NULL) = (settled_by IS NULL));
CREATE INDEX poison_messages_open ON signoff.poison_messages (received_at) WHERE settlement IS NULL;

-- Given up by an operator, who has seen that it is dead.
ALTER TABLE signoff.sendings
    DROP CONSTRAINT sendings_status_check,
    ADD CONSTRAINT sendings_status_check CHECK (status IN ('pending', 'sent', 'dead', 'discarded'));
-- Those of all subscriptions, newest first.
CREATE INDEX sendings_of_all_by_time ON signoff.sendings (created_at, id);
