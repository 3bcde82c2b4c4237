-- Endpoints that speak for some, with secrets that overlap.
SELECT;
