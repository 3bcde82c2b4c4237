-- Where a job's trace began (W3C Trace Context): the same trace goes on in every run, review and effect of it.

ALTER TABLE signoff.jobs ADD COLUMN traceparent text;
