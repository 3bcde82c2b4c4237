-- Reviews that hold: authority, several approvals, revisions, ladders, standing approvals.
SELECT;
