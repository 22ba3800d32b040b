-- What a process that lives has let go of, or has had for longer than requests take, any process may take over: while the database was away, a
-- claim could stay with one that knew nothing of it any more.
ALTER TABLE idempotency_record ALTER COLUMN runner DROP NOT NULL, ADD COLUMN taken_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN idempotency_record.runner IS 'The process that works on the request; null: none, the next try goes on with what it has made.';
COMMENT ON COLUMN idempotency_record.taken_at IS 'When it took it.';
