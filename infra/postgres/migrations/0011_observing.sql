-- Where a job's trace began (W3C Trace Context): the same trace goes on in every run, review and effect of it.

ALTER TABLE signoff.jobs ADD COLUMN traceparent text;

-- Effects that wait for another try: counted, and looked for when nobody tries.
CREATE INDEX effects_to_retry ON signoff.effects (retry_at) WHERE status = 'retry_wait';
