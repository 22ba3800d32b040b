-- Creates subscriptions, reported units and charges.

CREATE FUNCTION period_boundary(cycle text, anchor timestamptz, n integer) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN ((anchor AT TIME ZONE 'UTC') + CASE cycle
    WHEN 'daily' THEN make_interval(hours => 24 * n)
    WHEN 'weekly' THEN make_interval(hours => 168 * n)
    WHEN 'quarterly' THEN make_interval(months => 3 * n)
    ELSE make_interval(months => n)
  END) AT TIME ZONE 'UTC';
END $$;
COMMENT ON FUNCTION period_boundary IS 'The n-th period boundary, as machines/calendar.ts computes it (decision D2): no row can have a period off its grid.';

CREATE FUNCTION is_on_grid(cycle text, anchor timestamptz, n integer, starts_at timestamptz, ends_at timestamptz) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  -- With the schema's name: copying rows (a move between cells, a restored dump) has no search_path.
  RETURN n < 0 OR starts_at = public.period_boundary(cycle, anchor, n) AND ends_at = public.period_boundary(cycle, anchor, n + 1);
END $$;
COMMENT ON FUNCTION is_on_grid IS 'Whether a period is the n-th of its grid (decision D2). Before the first period every range is valid.';

CREATE TABLE subscription (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  plan_id text COLLATE "C" NOT NULL,
  payment_method_id text COLLATE "C",
  test_clock_id text COLLATE "C",
  state text NOT NULL,
  status text NOT NULL,
  version integer NOT NULL,
  billing_cycle text NOT NULL,
  price_kobo bigint NOT NULL,
  quantity integer NOT NULL,
  start_at timestamptz NOT NULL,
  trial_end_at timestamptz,
  anchor_at timestamptz NOT NULL,
  period_no integer NOT NULL,
  period_start_at timestamptz NOT NULL,
  period_end_at timestamptz NOT NULL,
  next_charge_at timestamptz,
  units bigint DEFAULT 0 NOT NULL,
  cancel_at_period_end boolean NOT NULL,
  cancel_reason text,
  bills_made integer NOT NULL,
  bill jsonb,
  dunning jsonb,
  escalation jsonb,
  cancelled_at timestamptz,
  cancellation_reason text,
  latest_charge_id text COLLATE "C",
  metadata jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  period_quantity integer NOT NULL,
  pause jsonb,
  announced_charge_id text COLLATE "C",
  CONSTRAINT subscription_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT subscription_quantity_positive CHECK (quantity >= 1),
  CONSTRAINT subscription_amount_in_range CHECK (price_kobo * quantity BETWEEN 100 AND 99999999999),
  CONSTRAINT subscription_units_counted CHECK (units >= 0),
  CONSTRAINT subscription_period_forward CHECK (period_end_at > period_start_at),
  CONSTRAINT subscription_cancelled_is_dated CHECK ((status = 'cancelled') = (cancelled_at IS NOT NULL)),
  CONSTRAINT subscription_cancelled_owes_nothing CHECK (status <> 'cancelled' OR bill IS NULL),
  CONSTRAINT subscription_dunning_has_bill CHECK (dunning IS NULL OR bill IS NOT NULL),
  CONSTRAINT subscription_period_quantity_positive CHECK (period_quantity >= 1),
  CONSTRAINT subscription_status_known CHECK (status = ANY ('{incomplete,trialing,active,past_due,paused,cancelled}')),
  CONSTRAINT subscription_cancel_reason_known CHECK (cancel_reason = ANY ('{customer_request,merchant_request,nonpayment,checkout_expired,other}')),
  CONSTRAINT subscription_cancellation_reason_known CHECK (cancellation_reason = ANY ('{customer_request,merchant_request,nonpayment,checkout_expired,other}')),
  CONSTRAINT subscription_billing_cycle_known CHECK (billing_cycle = ANY ('{daily,weekly,monthly,quarterly,per_delivery}')),
  CONSTRAINT subscription_period_on_grid CHECK (is_on_grid(billing_cycle, anchor_at, period_no, period_start_at, period_end_at)),
  CONSTRAINT subscription_paused_by_request CHECK ((pause IS NOT NULL) = (state = 'paused') OR state = 'ending'),
  CONSTRAINT subscription_paused_owes_nothing CHECK (pause IS NULL OR bill IS NULL OR state = 'ending'),
  CONSTRAINT subscription_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT subscription_plan_fkey FOREIGN KEY (account_id, livemode, plan_id) REFERENCES plan,
  CONSTRAINT subscription_payment_method_fkey FOREIGN KEY (account_id, livemode, customer_id, payment_method_id) REFERENCES payment_method (account_id, livemode, customer_id, id)
) WITH (fillfactor=80);
COMMENT ON TABLE subscription IS 'Customers'' subscriptions to plans. The columns are the snapshot of machines/subscription.ts; lifecycle_journal has the history.';
COMMENT ON COLUMN subscription.state IS 'The state of the machine as one word, such as overdue.retrying. The API shows status instead.';
COMMENT ON COLUMN subscription.version IS 'Number of the newest transition in lifecycle_journal.';
COMMENT ON COLUMN subscription.price_kobo IS 'Price of one unit for one period, copied from the plan at creation (decision C3).';
COMMENT ON COLUMN subscription.anchor_at IS 'Periods lie on the grid anchor + n cycles (decision D2); period_no is n of the current one.';
COMMENT ON COLUMN subscription.units IS 'Reported units that are not billed yet (decision E1). The next renewal bills them and resets the count to zero.';
COMMENT ON COLUMN subscription.bill IS 'The unpaid bill: purpose, period, lines, attempt; null: none.';
COMMENT ON COLUMN subscription.dunning IS 'Retry schedule of an overdue bill: its policy, first failure, retries made, next retry.';
COMMENT ON COLUMN subscription.period_quantity IS 'The billed quantity of the current period. The column quantity is for the next bill.';
COMMENT ON COLUMN subscription.pause IS 'Of a subscription that is paused by request, or ends while paused: since when, and when it resumes automatically (null: on request).';
COMMENT ON COLUMN subscription.announced_charge_id IS 'The latest charge in the newest event about the subscription: the next event shows it as the previous value.';
CREATE INDEX subscription_customer ON subscription (customer_id, account_id, livemode, id);
CREATE INDEX subscription_plan ON subscription (plan_id, account_id, livemode, id);
CREATE INDEX subscription_payment_method ON subscription (customer_id, payment_method_id, account_id, livemode) WHERE payment_method_id IS NOT NULL;
CREATE INDEX subscription_test_clock ON subscription (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
CREATE INDEX subscription_status ON subscription (status, account_id, livemode, id);
-- Makes a list with two unselective filters as fast as with one: for example the few past-due subscriptions of a plan with a million.
CREATE INDEX subscription_plan_status ON subscription (plan_id, status, account_id, livemode, id);
ALTER TABLE subscription ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON subscription TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON subscription TO billing_request;

CREATE TABLE unit_record (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  subscription_id text COLLATE "C" NOT NULL,
  test_clock_id text COLLATE "C",
  quantity bigint NOT NULL,
  action text NOT NULL,
  period_total bigint NOT NULL,
  reported_at timestamptz NOT NULL,
  description text,
  created_at timestamptz NOT NULL,
  CONSTRAINT unit_record_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT unit_record_action_known CHECK (action IN ('increment', 'set')),
  CONSTRAINT unit_record_quantity_counted CHECK (quantity >= 0 AND period_total >= 0),
  CONSTRAINT unit_record_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT unit_record_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription
);
COMMENT ON TABLE unit_record IS 'Units that merchants reported for subscriptions. subscription.units is their sum since the last bill.';
CREATE INDEX unit_record_subscription ON unit_record (subscription_id, account_id, livemode, id);
CREATE INDEX unit_record_test_clock ON unit_record (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
ALTER TABLE unit_record ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON unit_record TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON unit_record TO billing_request;

CREATE TABLE charge (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  subscription_id text COLLATE "C",
  test_clock_id text COLLATE "C",
  bill_no integer,
  attempt_number integer NOT NULL,
  amount_kobo bigint NOT NULL,
  currency text DEFAULT 'NGN'::text NOT NULL,
  period_start_at timestamptz,
  period_end_at timestamptz,
  lines jsonb NOT NULL,
  payment_method jsonb,
  rail text NOT NULL,
  state text NOT NULL,
  status text NOT NULL,
  version integer NOT NULL,
  sent_at timestamptz NOT NULL,
  asks integer DEFAULT 0 NOT NULL,
  not_found integer DEFAULT 0 NOT NULL,
  known_at timestamptz,
  runner integer,
  will_retry boolean DEFAULT false NOT NULL,
  next_retry_at timestamptz,
  refund_due boolean DEFAULT false NOT NULL,
  failure_code text,
  failure_message text,
  contradictions jsonb DEFAULT '[]'::jsonb NOT NULL,
  description text,
  metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
  paid_at timestamptz,
  created_at timestamptz NOT NULL,
  retry_of text COLLATE "C",
  payment_method_named boolean DEFAULT false NOT NULL,
  page_id text COLLATE "C",
  submission text,
  purpose text DEFAULT 'sale'::text NOT NULL,
  hosted boolean DEFAULT false NOT NULL,
  page_url text,
  page jsonb,
  refused_for text,
  rail_id text,
  resend text,
  attention jsonb,
  CONSTRAINT charge_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT charge_amount_in_range CHECK (amount_kobo BETWEEN 100 AND 99999999999),
  CONSTRAINT charge_currency_ngn CHECK (currency = 'NGN'),
  CONSTRAINT charge_paid_is_dated CHECK ((status = 'succeeded') = (paid_at IS NOT NULL)),
  CONSTRAINT charge_failed_has_code CHECK ((status = 'failed') = (failure_code IS NOT NULL)),
  CONSTRAINT charge_retry_is_one_off CHECK (retry_of IS NULL OR subscription_id IS NULL),
  CONSTRAINT charge_rail_answer_bounded CHECK (octet_length(page_url) <= 2000 AND octet_length(rail_id) <= 100),
  CONSTRAINT charge_purpose_by_id CHECK ((purpose = 'verification') = starts_with(id, 'cvr_')),
  CONSTRAINT charge_verification_sells_nothing CHECK (purpose <> 'verification' OR subscription_id IS NULL AND hosted),
  CONSTRAINT charge_instalment_has_plan CHECK (purpose <> 'instalment' OR subscription_id IS NULL AND starts_with(page_id, 'SB-')),
  CONSTRAINT charge_status_known CHECK (status = ANY ('{pending,succeeded,failed}')),
  CONSTRAINT charge_rail_known CHECK (rail = ANY ('{simulator,paystack,flutterwave}')),
  CONSTRAINT charge_purpose_known CHECK (purpose = ANY ('{sale,verification,instalment}')),
  CONSTRAINT charge_bill_complete CHECK (num_nulls(subscription_id, bill_no, period_start_at, period_end_at) = ANY ('{0,4}')),
  CONSTRAINT charge_resend_known CHECK (resend = ANY ('{possible,made}')),
  CONSTRAINT charge_attention_while_pending CHECK (attention IS NULL OR status = 'pending' AND octet_length(attention::text) <= 1000),
  CONSTRAINT charge_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT charge_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription,
  CONSTRAINT charge_retry_of_fkey FOREIGN KEY (account_id, livemode, retry_of) REFERENCES charge ON DELETE SET NULL (retry_of)
) WITH (fillfactor=85);
COMMENT ON TABLE charge IS 'Charges: each is one attempt at a rail (decision F1). Its ID is its reference at the rail.';
COMMENT ON COLUMN charge.sent_at IS 'When the attempt was due, in the customer''s clock.';
COMMENT ON COLUMN charge.runner IS 'The process with a call to the rail about this charge in flight; null: none.';
COMMENT ON COLUMN charge.contradictions IS 'Later results of the rail that contradict its first one: reconciliation exceptions, never applied (decision F2).';
COMMENT ON COLUMN charge.retry_of IS 'The failed one-off charge that this one retries. Attempts at a subscription''s bill share its bill_no instead.';
COMMENT ON COLUMN charge.payment_method_named IS 'Whether the caller named the payment method; false: it was the customer''s default at that time.';
COMMENT ON COLUMN charge.page_id IS 'The checkout session, nudge (payment link) or instalment plan on whose page the buyer paid; null: not on a page.';
COMMENT ON COLUMN charge.submission IS 'SHA-256 of the number of the submitted form, to recognise a form that is sent twice.';
COMMENT ON COLUMN charge.purpose IS 'sale; verification: a charge to save a card, refunded immediately (decision P8) and not shown in the API; instalment: a payment of the plan in page_id.';
COMMENT ON COLUMN charge.hosted IS 'Whether the buyer pays on the rail''s page (decision P5).';
COMMENT ON COLUMN charge.page_url IS 'The address of the rail''s page, once it is open.';
COMMENT ON COLUMN charge.page IS 'When the rail''s page was opened, and whether the buyer has returned from it.';
COMMENT ON COLUMN charge.refused_for IS 'Why the rail refused the attempt. The charge fails with this code once the rail confirms that it has no such transaction.';
COMMENT ON COLUMN charge.rail_id IS 'The rail''s own number of the transaction.';
COMMENT ON COLUMN charge.resend IS 'possible: the process died during the call, so the charge is sent again, once, if the rail does not know it; made: it was sent again.';
COMMENT ON COLUMN charge.attention IS 'Of a pending charge: the payment that the rail received instead of the requested one, as the API shows it.';
CREATE INDEX charge_customer ON charge (customer_id, account_id, livemode, id);
-- A subscription has at most one pending charge.
CREATE UNIQUE INDEX charge_under_way_once ON charge (subscription_id, account_id, livemode) WHERE status = 'pending' AND subscription_id IS NOT NULL;
-- A failed one-off charge has at most one retry. The retry can have a retry itself.
CREATE UNIQUE INDEX charge_retried_once ON charge (retry_of, account_id, livemode) WHERE retry_of IS NOT NULL;
CREATE INDEX charge_contradicted ON charge (account_id, livemode, id) WHERE contradictions <> '[]';
CREATE INDEX charge_status ON charge (status, account_id, livemode, id);
CREATE INDEX charge_subscription ON charge (subscription_id, account_id, livemode, id) WHERE subscription_id IS NOT NULL;
CREATE INDEX charge_page ON charge (page_id, account_id, livemode, id) WHERE page_id IS NOT NULL;
CREATE INDEX charge_verification ON charge (account_id, livemode, id) WHERE purpose = 'verification';
CREATE INDEX charge_paid_sandbox ON charge (paid_at, account_id, id) INCLUDE (amount_kobo) WHERE status = 'succeeded' AND NOT livemode;
CREATE UNIQUE INDEX charge_instalment_under_way_once ON charge (page_id, account_id, livemode) WHERE purpose = 'instalment' AND status = 'pending';
CREATE INDEX charge_instalment_paid ON charge (account_id, livemode, paid_at) INCLUDE (amount_kobo) WHERE purpose = 'instalment' AND status = 'succeeded' AND NOT refund_due;
CREATE INDEX charge_paid_live ON charge (paid_at, account_id, id) INCLUDE (amount_kobo, subscription_id) WHERE status = 'succeeded' AND livemode;
CREATE INDEX charge_period_paid ON charge (subscription_id, period_end_at, account_id, livemode) WHERE status = 'succeeded' AND subscription_id IS NOT NULL AND NOT refund_due;
CREATE INDEX charge_in_hand ON charge (test_clock_id, runner) WHERE runner IS NOT NULL;
CREATE UNIQUE INDEX charge_bill_open_or_paid_once ON charge (subscription_id, bill_no, (CASE WHEN failure_code IS NULL THEN 0 ELSE attempt_number END), account_id, livemode) WHERE subscription_id IS NOT NULL;
CREATE INDEX charge_attention ON charge (account_id, livemode, id) WHERE attention IS NOT NULL;
ALTER TABLE charge ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON charge TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON charge TO billing_request;

CREATE TABLE simulator_attempt (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  reference text COLLATE "C" NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  payment_method_id text COLLATE "C" NOT NULL,
  amount_kobo bigint NOT NULL,
  attempts integer NOT NULL,
  outcome text NOT NULL,
  code text,
  known_at timestamptz,
  test_clock_id text COLLATE "C",
  created_at timestamptz DEFAULT now() NOT NULL,
  CONSTRAINT simulator_attempt_pkey PRIMARY KEY (account_id, livemode, reference)
);
COMMENT ON TABLE simulator_attempt IS 'The simulator''s records of its charges, by reference. `attempts` above 1 means that a reference was sent twice.';
CREATE INDEX simulator_attempt_test_clock ON simulator_attempt (test_clock_id, account_id, livemode, reference) WHERE test_clock_id IS NOT NULL;
CREATE INDEX simulator_attempt_used ON simulator_attempt (customer_id, payment_method_id, account_id, livemode) WHERE starts_with(payment_method_id, 'pm_test_success_then_');
ALTER TABLE simulator_attempt ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON simulator_attempt TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON simulator_attempt TO billing_request;

CREATE FUNCTION refuse_period_paid_twice() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE twice record;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'charges are written in read committed transactions: those of others are looked at' USING ERRCODE = 'feature_not_supported';
  END IF;
  -- Waits for transactions that pay for a period of the same subscription. The query below sees their rows.
  PERFORM 1 FROM (
    SELECT DISTINCT account_id, livemode, subscription_id FROM new_charges
    WHERE status = 'succeeded' AND subscription_id IS NOT NULL AND NOT refund_due ORDER BY 3
  ) n CROSS JOIN LATERAL (
    SELECT 1 FROM subscription s WHERE (s.account_id, s.livemode, s.id) = (n.account_id, n.livemode, n.subscription_id) FOR NO KEY UPDATE
  ) s;
  IF NOT FOUND THEN RETURN NULL; END IF;
  SELECT n.id, n.subscription_id, c.id AS other INTO twice
  FROM new_charges n CROSS JOIN LATERAL (
    SELECT c.id FROM charge c
    WHERE (c.account_id, c.livemode, c.subscription_id) = (n.account_id, n.livemode, n.subscription_id) AND c.id <> n.id
      AND c.status = 'succeeded' AND c.subscription_id IS NOT NULL AND NOT c.refund_due
      AND c.period_end_at > n.period_start_at AND c.period_start_at < n.period_end_at AND c.period_start_at < c.period_end_at
    ORDER BY c.period_end_at LIMIT 1
  ) c
  WHERE n.status = 'succeeded' AND n.subscription_id IS NOT NULL AND NOT n.refund_due AND n.period_start_at < n.period_end_at LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'charge % pays for a period of % that % has paid for', twice.id, twice.subscription_id, twice.other
      USING ERRCODE = 'exclusion_violation', TABLE = 'charge', CONSTRAINT = 'charge_period_paid_once';
  END IF;
  RETURN NULL;
END $$;
COMMENT ON FUNCTION refuse_period_paid_twice IS 'Refuses paid periods of a subscription that overlap.';

CREATE TRIGGER charge_period_paid_once_new AFTER INSERT ON charge REFERENCING NEW TABLE AS new_charges FOR EACH STATEMENT EXECUTE FUNCTION refuse_period_paid_twice();
CREATE TRIGGER charge_period_paid_once AFTER UPDATE ON charge REFERENCING NEW TABLE AS new_charges FOR EACH STATEMENT EXECUTE FUNCTION refuse_period_paid_twice();
