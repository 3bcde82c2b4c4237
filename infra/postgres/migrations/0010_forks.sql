-- Threads that were forked from others: their lineage root, and with it the ledger, is that of the first.

ALTER TABLE signoff.threads
    ADD COLUMN forked_from            text REFERENCES signoff.threads,
    ADD COLUMN forked_at_checkpoint   text,
    -- What was decided in those that it comes from is not asked again.
    ADD COLUMN keeps_decisions        boolean NOT NULL DEFAULT false,
    ADD CHECK ((forked_from IS NULL) = (forked_at_checkpoint IS NULL)),
    ADD CHECK (forked_from IS NOT NULL OR NOT keeps_decisions);
CREATE INDEX threads_forked_from ON signoff.threads (forked_from) WHERE forked_from IS NOT NULL;
