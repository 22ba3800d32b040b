-- A reset forgets every idempotency record of its sandbox but the one with its own answer.
ALTER TABLE sandbox_reset ADD COLUMN record_key text;
COMMENT ON COLUMN sandbox_reset.record_key IS 'The idempotency record of the request for this reset: the one that stays. Null: it came without an Idempotency-Key.';
