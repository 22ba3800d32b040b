-- Creates the journal and timers of lifecycles, idempotency records, and background deletions.

CREATE TABLE lifecycle_journal (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  actor_id text COLLATE "C" NOT NULL,
  version integer NOT NULL,
  actor_kind text NOT NULL,
  at timestamptz NOT NULL,
  event jsonb NOT NULL,
  from_state text NOT NULL,
  to_state text NOT NULL,
  effects jsonb NOT NULL,
  machine_version integer NOT NULL,
  recorded_at timestamptz DEFAULT now() NOT NULL,
  status_from text,
  status_to text,
  cause jsonb,
  brought text[] DEFAULT '{}' NOT NULL,
  CONSTRAINT lifecycle_journal_pkey PRIMARY KEY (account_id, livemode, actor_id, version),
  CONSTRAINT lifecycle_journal_kind_known CHECK (actor_kind IN ('subscription', 'charge', 'test_clock', 'invoice', 'webhook_endpoint', 'nudge', 'checkout_session', 'refund', 'instalment_plan'))
);
COMMENT ON TABLE lifecycle_journal IS 'Every transition of every lifecycle. Replaying it through the machine gives the row: `npm run cli -- journal replay` proves it.';
COMMENT ON COLUMN lifecycle_journal.at IS 'When it happened, in the actor''s clock. recorded_at is when it was written.';
COMMENT ON COLUMN lifecycle_journal.status_to IS 'The status that the API shows after the transition; status_from: before it. Null: its kind has none, or there was none.';
COMMENT ON COLUMN lifecycle_journal.cause IS 'The request or the page that asked for it: {kind, request_id, key, member}. Null: none; the event shows whether a timer, a rail or the service caused it.';
COMMENT ON COLUMN lifecycle_journal.brought IS 'The IDs of the charges, refunds, ledger entries, nudges and events that it created.';
ALTER TABLE lifecycle_journal ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON lifecycle_journal TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON lifecycle_journal TO billing_request;

CREATE TABLE timer (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  actor_id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  actor_kind text NOT NULL,
  generation integer NOT NULL,
  due_at timestamptz NOT NULL,
  rank smallint NOT NULL,
  event text NOT NULL,
  test_clock_id text COLLATE "C",
  customer_id text COLLATE "C",
  CONSTRAINT timer_pkey PRIMARY KEY (account_id, livemode, actor_id, name),
  CONSTRAINT timer_customer_of_clock CHECK ((customer_id IS NOT NULL) = (test_clock_id IS NOT NULL))
);
COMMENT ON TABLE timer IS 'Timers: each row is one delay of an actor''s machine, due in the actor''s clock. Firing it sends `event`.';
COMMENT ON COLUMN timer.generation IS 'The version of the actor that set it: a timer that is set again is another timer.';
COMMENT ON COLUMN timer.rank IS 'The order of timers that are due at the same instant (decision E19).';
COMMENT ON COLUMN timer.customer_id IS 'The customer, on a test clock. The customers of a clock advance independently of each other.';
CREATE INDEX timer_due ON timer (actor_kind, due_at, rank, actor_id) WHERE test_clock_id IS NULL;
CREATE INDEX timer_due_on_clock ON timer (test_clock_id, account_id, livemode, due_at, rank, actor_id) WHERE test_clock_id IS NOT NULL;
ALTER TABLE timer ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON timer TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON timer TO billing_request;

CREATE TABLE idempotency_record (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  key text NOT NULL,
  fingerprint bytea NOT NULL,
  runner integer,
  token text NOT NULL,
  resource_id text COLLATE "C",
  response_status integer,
  created_at timestamptz DEFAULT now() NOT NULL,
  response_body bytea,
  taken_at timestamptz DEFAULT now() NOT NULL,
  expanded_fields text[],
  expanded_body bytea,
  CONSTRAINT idempotency_record_pkey PRIMARY KEY (account_id, livemode, key),
  CONSTRAINT idempotency_record_begun CHECK (response_status IS NOT NULL OR resource_id IS NOT NULL),
  CONSTRAINT idempotency_record_answered CHECK ((response_status IS NULL) = (response_body IS NULL)),
  CONSTRAINT idempotency_record_bounded CHECK (octet_length(response_body) <= 262144 + 28),
  CONSTRAINT idempotency_record_expanded CHECK ((expanded_fields IS NULL) = (expanded_body IS NULL)),
  CONSTRAINT idempotency_record_expanded_bounded CHECK (octet_length(expanded_body) <= 262144 + 28),
  CONSTRAINT idempotency_record_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE idempotency_record IS 'One row for each Idempotency-Key, kept 24 hours. Without a response, the request has made resource_id and is still being processed by `runner`.';
COMMENT ON COLUMN idempotency_record.key IS 'HMAC of the Idempotency-Key under a secret of the service.';
COMMENT ON COLUMN idempotency_record.fingerprint IS 'HMAC of method, path and canonical body under the same secret.';
COMMENT ON COLUMN idempotency_record.runner IS 'The process that works on the request; null: none, so the next try continues from resource_id.';
COMMENT ON COLUMN idempotency_record.token IS 'Identifies the current try of the request. An earlier try can no longer store a response.';
COMMENT ON COLUMN idempotency_record.resource_id IS 'The object that the request has made so far. A try after a crash finishes it and makes no second one. If the response was too large to store, a repeated request is referred to it.';
COMMENT ON COLUMN idempotency_record.response_body IS 'The response without expanded fields, encrypted with a key derived from the Idempotency-Key and a secret of the service. Empty: too large to store.';
COMMENT ON COLUMN idempotency_record.taken_at IS 'When `runner` took the request.';
COMMENT ON COLUMN idempotency_record.expanded_fields IS 'The fields that the first request asked to expand; null: none, or the response was too large to store.';
COMMENT ON COLUMN idempotency_record.expanded_body IS 'The response with these fields expanded, encrypted like response_body.';
CREATE INDEX idempotency_record_created ON idempotency_record (created_at);
ALTER TABLE idempotency_record ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON idempotency_record TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_record TO billing_request;

-- Large objects are deleted in the background, in batches, accounts in turn.
CREATE TABLE deletion (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  requested_at timestamptz DEFAULT now() NOT NULL,
  step text DEFAULT ''::text NOT NULL,
  deleted_to text COLLATE "C" DEFAULT ''::text NOT NULL,
  turn_at timestamptz,
  CONSTRAINT deletion_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT deletion_sandbox_only CHECK (NOT livemode),
  CONSTRAINT deletion_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE deletion IS 'Running background deletions and their progress (src/process/deletion): a test clock with all its rows, or a whole sandbox.';
COMMENT ON COLUMN deletion.id IS 'The ID of the test clock; `sandbox`: the whole sandbox.';
COMMENT ON COLUMN deletion.step IS 'The table that is being emptied; earlier tables are done. Empty before the first batch.';
COMMENT ON COLUMN deletion.deleted_to IS 'The last deleted key of that table: the next batch starts after it.';
COMMENT ON COLUMN deletion.turn_at IS 'The earliest time of its next batch. The account''s deletion that waited longest is next; null: no batch yet.';
CREATE INDEX deletion_turn ON deletion (account_id, turn_at NULLS FIRST);
ALTER TABLE deletion ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON deletion TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON deletion TO billing_request;

CREATE TABLE sandbox_reset (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  requested_at timestamptz DEFAULT now() NOT NULL,
  record_key text,
  CONSTRAINT sandbox_reset_pkey PRIMARY KEY (account_id, livemode),
  CONSTRAINT sandbox_reset_sandbox_only CHECK (NOT livemode),
  CONSTRAINT sandbox_reset_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE sandbox_reset IS 'Accounts whose sandbox is being emptied (decision M2). While the row exists, writes to that sandbox are refused.';
COMMENT ON COLUMN sandbox_reset.record_key IS 'The idempotency record of the request for this reset: it is not deleted. Null: the request had no Idempotency-Key.';
ALTER TABLE sandbox_reset ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sandbox_reset TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON sandbox_reset TO billing_request;

CREATE FUNCTION enter_sandbox(account text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- Checked twice: before the lock, to not wait for a running reset; and after it, because a reset may have been requested meanwhile.
  IF EXISTS (SELECT 1 FROM sandbox_reset WHERE account_id = account AND NOT livemode) THEN RETURN false; END IF;
  PERFORM pg_advisory_xact_lock_shared(7301003, hashtext(account));
  RETURN NOT EXISTS (SELECT 1 FROM sandbox_reset WHERE account_id = account AND NOT livemode);
END $$;
COMMENT ON FUNCTION enter_sandbox IS 'Whether a transaction may write to an account''s sandbox. If so, no reset starts before the transaction ends (decision M2).';

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
COMMENT ON FUNCTION add_wakeups IS 'Adds jobs of a queue at instants that have none yet (src/runtime/Wakeups.ts). Requests use it, because they cannot see jobs.';
REVOKE ALL ON FUNCTION add_wakeups FROM PUBLIC;
GRANT EXECUTE ON FUNCTION add_wakeups TO billing_request;
