-- Pauses, deliveries, manual retries and one-off charges; what was written before is brought into the new vocabulary.

ALTER TABLE subscription
  ADD COLUMN period_quantity integer,
  ADD COLUMN pause jsonb,
  ADD COLUMN told_charge_id text COLLATE "C";
UPDATE subscription SET period_quantity = quantity, told_charge_id = latest_charge_id;
UPDATE subscription SET bill = bill - 'automaticRetry' || jsonb_build_object(
    'anchorAt', (extract(epoch FROM anchor_at) * 1000)::bigint, 'periodNo', period_no + 1, 'quantity', quantity,
    'origin', CASE WHEN (bill->>'automaticRetry')::boolean THEN 'schedule' ELSE 'due' END, 'methodId', NULL, 'nextMethod', NULL, 'standIn', NULL)
  WHERE bill IS NOT NULL;
UPDATE lifecycle_journal SET event = event || '{"type": "update", "cancelAtPeriodEnd": false}'
  WHERE actor_kind = 'subscription' AND event->>'type' = 'keep';
-- The horizon of a delivery plan's period now ends what was cancelled at period end.
INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event, test_clock_id)
SELECT account_id, livemode, id, 'periodEnd', 'subscription', version, period_end_at, 3, 'xstate.after.periodEnd.subscription.active.current', test_clock_id
FROM subscription WHERE billing_cycle = 'per_delivery' AND state = 'active.current'
ON CONFLICT DO NOTHING;

-- Boundary n of the grid of periods: anchor plus n cycles, in UTC; a day that a month lacks falls on its last.
CREATE FUNCTION period_boundary(cycle text, anchor timestamptz, n integer) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE cycle
    WHEN 'daily' THEN anchor + make_interval(hours => 24 * n)
    WHEN 'weekly' THEN anchor + make_interval(hours => 168 * n)
    ELSE ((anchor AT TIME ZONE 'UTC') + make_interval(months => n * CASE cycle WHEN 'quarterly' THEN 3 ELSE 1 END)) AT TIME ZONE 'UTC'
  END
$$;
COMMENT ON FUNCTION period_boundary IS 'What machines/calendar.ts computes (decision D2), so that no row can hold a period off its grid.';

ALTER TABLE subscription
  ALTER COLUMN period_quantity SET NOT NULL,
  ADD CONSTRAINT subscription_period_quantity_positive CHECK (period_quantity >= 1),
  ADD CONSTRAINT subscription_period_on_grid CHECK (period_no < 0 OR (
    period_start_at = period_boundary(billing_cycle, anchor_at, period_no) AND period_end_at = period_boundary(billing_cycle, anchor_at, period_no + 1))),
  ADD CONSTRAINT subscription_paused_by_request CHECK ((pause IS NOT NULL) = (state = 'paused')),
  ADD CONSTRAINT subscription_paused_owes_nothing CHECK (pause IS NULL OR bill IS NULL);
COMMENT ON COLUMN subscription.period_quantity IS 'Quantity that the current period was billed for; quantity is that of the next bill.';
COMMENT ON COLUMN subscription.told_charge_id IS 'The latest charge as the newest event about the subscription showed it: what the next one says it was before.';
COMMENT ON COLUMN subscription.pause IS 'While paused by request: since when, and when it resumes by itself (null: when asked to).';

-- One attempt at a time: a subscription has at most one charge under way.
CREATE UNIQUE INDEX charge_under_way_once ON charge (subscription_id, account_id, livemode) WHERE status = 'pending' AND subscription_id IS NOT NULL;

ALTER TABLE charge
  ADD COLUMN retry_of text COLLATE "C",
  ADD COLUMN payment_method_named boolean NOT NULL DEFAULT false,
  ADD CONSTRAINT charge_retry_of_fkey FOREIGN KEY (account_id, livemode, retry_of) REFERENCES charge,
  ADD CONSTRAINT charge_retry_is_one_off CHECK (retry_of IS NULL OR subscription_id IS NULL);
-- A one-off charge that failed is retried once: the retry can be retried in its turn.
CREATE UNIQUE INDEX charge_retried_once ON charge (retry_of, account_id, livemode) WHERE retry_of IS NOT NULL;
CREATE INDEX charge_under_way_on_clock ON charge (test_clock_id) WHERE sender IS NOT NULL AND test_clock_id IS NOT NULL;
COMMENT ON COLUMN charge.retry_of IS 'The failed one-off charge that this one retries. Attempts at a subscription''s bill are held together by bill_no.';
COMMENT ON COLUMN charge.payment_method_named IS 'Whether the caller named the payment method; otherwise it was the default of then.';

ALTER TABLE payment_method ADD COLUMN attached_no bigint GENERATED ALWAYS AS IDENTITY;
CREATE INDEX subscription_payment_method ON subscription (customer_id, payment_method_id, account_id, livemode) WHERE payment_method_id IS NOT NULL;
COMMENT ON COLUMN payment_method.attached_no IS 'Order of attaching: sandbox IDs are not in order of time.';

CREATE TABLE sandbox_reset (
  account_id    text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode      boolean NOT NULL,
  requested_at  timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT sandbox_reset_pkey PRIMARY KEY (account_id, livemode),
  CONSTRAINT sandbox_reset_sandbox_only CHECK (NOT livemode)
);
COMMENT ON TABLE sandbox_reset IS 'Accounts whose sandbox is being emptied (decision M2); while the row stands, writes to that sandbox are refused.';

-- A write to a sandbox enters it first: it waits for nobody, and the reset waits for whoever is in.
CREATE FUNCTION enter_sandbox(account text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- Looked at twice: before, so as not to wait for a reset at work; and after, since one may have been asked for meanwhile.
  IF EXISTS (SELECT 1 FROM sandbox_reset WHERE account_id = account AND NOT livemode) THEN RETURN false; END IF;
  PERFORM pg_advisory_xact_lock_shared(7301003, hashtext(account));
  RETURN NOT EXISTS (SELECT 1 FROM sandbox_reset WHERE account_id = account AND NOT livemode);
END $$;
COMMENT ON FUNCTION enter_sandbox IS 'Whether a transaction may write to an account''s sandbox; it is then in it until it ends (decision M2).';

INSERT INTO ledger_account (code, name, kind) VALUES ('waived', 'Waived: totals too small to charge', 'expense');

-- The books of a sandbox go with its reset, and nothing else ever does: the reset names its account for its transaction.
CREATE OR REPLACE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND TG_TABLE_NAME <> 'ledger_account' AND coalesce(current_setting('billing.sandbox_reset', true), '') <> '' THEN RETURN NULL; END IF;
  RAISE EXCEPTION 'the ledger is append-only: % on % is refused; post a reversing entry', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_append_only';
END $$;
CREATE FUNCTION refuse_ledger_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM gone WHERE livemode OR account_id IS DISTINCT FROM current_setting('billing.sandbox_reset', true)) THEN
    RAISE EXCEPTION 'the ledger is append-only: only the reset of its own sandbox empties it'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_append_only';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER ledger_entry_kept AFTER DELETE ON ledger_entry REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_loss();
CREATE TRIGGER ledger_line_kept AFTER DELETE ON ledger_line REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_loss();

CREATE VIEW finance.unbilled_units AS
SELECT s.account_id, s.livemode, s.id AS subscription, s.customer_id AS customer, s.plan_id AS plan,
  CASE WHEN s.status = 'cancelled' THEN 'unbilled' ELSE 'pending' END AS state, s.units,
  p.overage_per_unit_kobo AS unit_price_kobo,
  s.units * coalesce(p.overage_per_unit_kobo, 0) AS amount_kobo,
  round(s.units * coalesce(p.overage_per_unit_kobo, 0) / 100.0, 2) AS amount_naira,
  s.period_start_at AS since, s.cancelled_at
FROM subscription s JOIN plan p ON (p.account_id, p.livemode, p.id) = (s.account_id, s.livemode, s.plan_id)
WHERE s.units > 0;
COMMENT ON VIEW finance.unbilled_units IS 'Units reported and not billed: pending until the next renewal, unbilled for good where the subscription was cancelled first. Amounts at the plan''s present price.';

CREATE VIEW finance.reconciliation_exceptions AS
SELECT c.account_id, c.livemode, c.id AS charge, c.rail, c.customer_id AS customer, c.subscription_id AS subscription,
  c.status AS settled_as, x.word->>'answer' AS rail_says, x.word->>'code' AS failure_code, (x.word->>'at')::timestamptz AS said_at,
  c.amount_kobo, round(c.amount_kobo / 100.0, 2) AS amount_naira
FROM charge c CROSS JOIN LATERAL jsonb_array_elements(c.contradictions) AS x (word)
WHERE c.contradictions <> '[]';
COMMENT ON VIEW finance.reconciliation_exceptions IS 'Charges of which the rail later said the opposite of its first word. Nothing was changed by it: look at the rail''s own statement, then refund or collect.';
CREATE INDEX charge_contradicted ON charge (account_id, livemode, id) WHERE contradictions <> '[]';
UPDATE charge SET contradictions = (
    SELECT jsonb_agg(jsonb_build_object('at', to_jsonb(coalesce(c.paid_at, c.created_at)), 'answer', word, 'code', NULL)) FROM jsonb_array_elements(c.contradictions) AS x (word))
  FROM charge c WHERE (c.account_id, c.livemode, c.id) = (charge.account_id, charge.livemode, charge.id) AND c.contradictions <> '[]';
