-- What is large is deleted in the background, in batches; clocks wait for their turn by account; requests add wake-ups and
-- see no job.

CREATE TABLE deletion (
  account_id    text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode      boolean NOT NULL,
  id            text COLLATE "C" NOT NULL,
  requested_at  timestamptz NOT NULL DEFAULT now(),
  step          text NOT NULL DEFAULT '',
  deleted_to    text COLLATE "C" NOT NULL DEFAULT '',
  turn_at       timestamptz,
  CONSTRAINT deletion_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT deletion_sandbox_only CHECK (NOT livemode)
);
CREATE INDEX deletion_turn ON deletion (account_id, turn_at NULLS FIRST);
COMMENT ON TABLE deletion IS 'What is being deleted in the background, and how far that is (src/process/deletion): a test clock with all that is its, or a whole sandbox.';
COMMENT ON COLUMN deletion.id IS 'The test clock; `sandbox`: all of it.';
COMMENT ON COLUMN deletion.step IS 'The table that is being emptied; those before it are done. Empty before the first batch.';
COMMENT ON COLUMN deletion.deleted_to IS 'The last key of that table that is deleted: what is gone is not looked at again.';
COMMENT ON COLUMN deletion.turn_at IS 'Its next batch comes no earlier, and after those of the account that have waited longer; null: it has had none.';
ALTER TABLE deletion ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON deletion TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);
GRANT SELECT, INSERT ON deletion TO billing_request;
INSERT INTO deletion (account_id, livemode, id, requested_at) SELECT account_id, livemode, 'sandbox', requested_at FROM sandbox_reset;

-- A clock that is being deleted is gone for the API.
ALTER TABLE test_clock DROP CONSTRAINT test_clock_state_known;
ALTER TABLE test_clock ADD CONSTRAINT test_clock_state_known CHECK (state IN ('ready', 'advancing', 'internal_failure', 'deleting'));
CREATE INDEX test_clock_known ON test_clock (account_id, livemode, id) WHERE state <> 'deleting';
DROP INDEX test_clock_deletes_at;
CREATE INDEX test_clock_expiring ON test_clock (deletes_at) WHERE state IN ('ready', 'internal_failure');

-- Batch after batch, by key, of what belongs to a clock.
DROP INDEX customer_test_clock, subscription_test_clock, unit_record_test_clock, charge_test_clock, event_test_clock, simulator_attempt_test_clock;
CREATE INDEX customer_test_clock ON customer (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
CREATE INDEX subscription_test_clock ON subscription (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
CREATE INDEX unit_record_test_clock ON unit_record (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
CREATE INDEX charge_test_clock ON charge (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
CREATE INDEX event_test_clock ON event (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
CREATE INDEX simulator_attempt_test_clock ON simulator_attempt (test_clock_id, account_id, livemode, reference) WHERE test_clock_id IS NOT NULL;
-- Those that are not to be sent: lest it be taken for the index of the few that are.
CREATE INDEX nudge_test_clock ON nudge (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL AND state <> 'sending';

-- A charge goes whether or not the one that retries it is in the same batch.
ALTER TABLE charge DROP CONSTRAINT charge_retry_of_fkey;
ALTER TABLE charge ADD CONSTRAINT charge_retry_of_fkey FOREIGN KEY (account_id, livemode, retry_of) REFERENCES charge ON DELETE SET NULL (retry_of);
-- Without it, whoever deletes an entry looks at all of the account's for one that reverses it.
CREATE INDEX ledger_entry_reverses ON ledger_entry (reverses, account_id, livemode) WHERE reverses IS NOT NULL;

-- Clocks that are to be moved, by account, the longest waiting first.
ALTER TABLE test_clock ADD COLUMN waiting_since timestamptz;
COMMENT ON COLUMN test_clock.waiting_since IS 'When it was last put in the queue of clocks to be moved: as its advance was asked for, or as it made room for others.';

-- The same for plans whose subscriptions are to follow.
ALTER TABLE plan ADD COLUMN reminders_turn_at timestamptz;
DROP INDEX plan_reminders_changed;
CREATE INDEX plan_reminders_changed ON plan (account_id, reminders_turn_at NULLS FIRST) WHERE reminders_rescheduled_to IS NOT NULL;
COMMENT ON COLUMN plan.reminders_turn_at IS 'When some of its subscriptions last followed its rules for reminders: of an account''s plans the longest waiting is next.';

-- Requests may ask to be woken at some instants, and nothing else of jobs. pg-boss makes its schema when a server starts:
-- before the first one, there is nobody to wake.
CREATE FUNCTION add_wakeups(queue text, instants timestamptz[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF cardinality(instants) > 1000 THEN
    RAISE EXCEPTION 'at most 1,000 wake-ups at once' USING ERRCODE = 'program_limit_exceeded';
  END IF;
  IF to_regclass('pgboss.job') IS NULL THEN RETURN; END IF;
  INSERT INTO pgboss.job (name, start_after, keep_until, expire_seconds, deletion_seconds, retry_limit, retry_delay, retry_backoff, policy)
  SELECT q.name, i.at, i.at + q.retention_seconds * interval '1 second', q.expire_seconds, q.deletion_seconds, q.retry_limit, q.retry_delay, q.retry_backoff, q.policy
  FROM pgboss.queue q CROSS JOIN (SELECT DISTINCT at FROM unnest(instants) AS u (at)) i
  WHERE q.name = queue
    AND NOT EXISTS (SELECT 1 FROM pgboss.job j WHERE j.name = queue AND j.state = 'created' AND j.start_after = i.at);
END $$;
COMMENT ON FUNCTION add_wakeups IS 'Adds jobs of a queue at instants that have none yet (src/runtime/Wakeups.ts).';
REVOKE ALL ON FUNCTION add_wakeups FROM PUBLIC;
GRANT EXECUTE ON FUNCTION add_wakeups TO billing_request;
DO $$ BEGIN
  IF to_regnamespace('pgboss') IS NOT NULL THEN
    REVOKE ALL ON ALL TABLES IN SCHEMA pgboss FROM billing_request;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgboss FROM billing_request;
    REVOKE ALL ON SCHEMA pgboss FROM billing_request;
  END IF;
END $$;
