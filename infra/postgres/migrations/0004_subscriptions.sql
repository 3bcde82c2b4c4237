-- Subscriptions: where events are sent, and the log of what was sent.
SELECT;
