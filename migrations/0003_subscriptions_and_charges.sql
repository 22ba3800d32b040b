-- Subscriptions and the charges that pay for them.

CREATE TABLE subscription (
  account_id           text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode             boolean NOT NULL,
  id                   text COLLATE "C" NOT NULL,
  customer_id          text COLLATE "C" NOT NULL,
  plan_id              text COLLATE "C" NOT NULL,
  payment_method_id    text COLLATE "C",
  test_clock_id        text COLLATE "C",
  state                text NOT NULL,
  status               text NOT NULL,
  version              integer NOT NULL,
  billing_cycle        text NOT NULL,
  price_kobo           bigint NOT NULL,
  quantity             integer NOT NULL,
  start_at             timestamptz NOT NULL,
  trial_end_at         timestamptz,
  anchor_at            timestamptz NOT NULL,
  period_no            integer NOT NULL,
  period_start_at      timestamptz NOT NULL,
  period_end_at        timestamptz NOT NULL,
  next_charge_at       timestamptz,
  units                bigint NOT NULL DEFAULT 0,
  cancel_at_period_end boolean NOT NULL,
  cancel_reason        text,
  bills_made           integer NOT NULL,
  bill                 jsonb,
  dunning              jsonb,
  escalation           jsonb,
  cancelled_at         timestamptz,
  cancellation_reason  text,
  latest_charge_id     text COLLATE "C",
  metadata             jsonb NOT NULL,
  created_at           timestamptz NOT NULL,
  CONSTRAINT subscription_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT subscription_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT subscription_plan_fkey FOREIGN KEY (account_id, livemode, plan_id) REFERENCES plan,
  CONSTRAINT subscription_payment_method_fkey FOREIGN KEY (account_id, livemode, customer_id, payment_method_id) REFERENCES payment_method (account_id, livemode, customer_id, id),
  CONSTRAINT subscription_status_known CHECK (status IN ('incomplete', 'trialing', 'active', 'past_due', 'paused', 'cancelled')),
  CONSTRAINT subscription_quantity_positive CHECK (quantity >= 1),
  CONSTRAINT subscription_amount_in_range CHECK (price_kobo * quantity BETWEEN 100 AND 99999999999),
  CONSTRAINT subscription_units_counted CHECK (units >= 0),
  CONSTRAINT subscription_period_forward CHECK (period_end_at > period_start_at),
  CONSTRAINT subscription_cancelled_is_dated CHECK ((status = 'cancelled') = (cancelled_at IS NOT NULL)),
  CONSTRAINT subscription_cancelled_owes_nothing CHECK (status <> 'cancelled' OR bill IS NULL),
  CONSTRAINT subscription_dunning_has_bill CHECK (dunning IS NULL OR bill IS NOT NULL)
) WITH (fillfactor = 80);
CREATE INDEX subscription_customer ON subscription (customer_id, account_id, livemode, id);
CREATE INDEX subscription_test_clock ON subscription (test_clock_id, account_id, livemode) WHERE test_clock_id IS NOT NULL;
CREATE INDEX subscription_plan ON subscription (plan_id, account_id, livemode, id);
CREATE INDEX subscription_status ON subscription (status, account_id, livemode, id) WHERE status <> 'active';
COMMENT ON TABLE subscription IS 'A customer''s subscription to a plan (spec 2.5). Its columns are the snapshot of machines/subscription.ts; lifecycle_journal has how it came about.';
COMMENT ON COLUMN subscription.state IS 'The state of the machine as one word, such as overdue.retrying; status is what the API shows of it.';
COMMENT ON COLUMN subscription.version IS 'Number of the newest transition in lifecycle_journal.';
COMMENT ON COLUMN subscription.price_kobo IS 'Price of one for one period, kept from the plan as it was on creation (decision C3).';
COMMENT ON COLUMN subscription.anchor_at IS 'Periods lie on the grid anchor + n cycles (decision D2); period_no is n of the current one.';
COMMENT ON COLUMN subscription.units IS 'Units reported and not billed yet (decision E1): the next renewal bills them and starts at zero.';
COMMENT ON COLUMN subscription.bill IS 'The unpaid bill, while there is one: purpose, period, lines, attempt.';
COMMENT ON COLUMN subscription.dunning IS 'Retry schedule of an overdue bill: the policy held, first failure, retries made, next one.';

CREATE TABLE unit_record (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  id               text COLLATE "C" NOT NULL,
  subscription_id  text COLLATE "C" NOT NULL,
  test_clock_id    text COLLATE "C",
  quantity         bigint NOT NULL,
  action           text NOT NULL,
  period_total     bigint NOT NULL,
  reported_at      timestamptz NOT NULL,
  description      text,
  created_at       timestamptz NOT NULL,
  CONSTRAINT unit_record_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT unit_record_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription,
  CONSTRAINT unit_record_action_known CHECK (action IN ('increment', 'set')),
  CONSTRAINT unit_record_quantity_counted CHECK (quantity >= 0 AND period_total >= 0)
);
CREATE INDEX unit_record_test_clock ON unit_record (test_clock_id, account_id, livemode) WHERE test_clock_id IS NOT NULL;
CREATE INDEX unit_record_subscription ON unit_record (subscription_id, account_id, livemode, id);
COMMENT ON TABLE unit_record IS 'Units that a merchant reported for a subscription (spec 2.12). subscription.units is what they come to since the last bill.';

CREATE TABLE charge (
  account_id          text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode            boolean NOT NULL,
  id                  text COLLATE "C" NOT NULL,
  customer_id         text COLLATE "C" NOT NULL,
  subscription_id     text COLLATE "C",
  test_clock_id       text COLLATE "C",
  bill_no             integer,
  attempt_number      integer NOT NULL,
  amount_kobo         bigint NOT NULL,
  currency            text NOT NULL DEFAULT 'NGN',
  period_start_at     timestamptz,
  period_end_at       timestamptz,
  lines               jsonb NOT NULL,
  payment_method      jsonb,
  rail                text NOT NULL,
  state               text NOT NULL,
  status              text NOT NULL,
  version             integer NOT NULL,
  sent_at             timestamptz NOT NULL,
  asks                integer NOT NULL DEFAULT 0,
  not_found           integer NOT NULL DEFAULT 0,
  known_at            timestamptz,
  sender              integer,
  will_retry          boolean NOT NULL DEFAULT false,
  next_retry_at       timestamptz,
  refund_due          boolean NOT NULL DEFAULT false,
  failure_code        text,
  failure_message     text,
  contradictions      jsonb NOT NULL DEFAULT '[]',
  description         text,
  metadata            jsonb NOT NULL DEFAULT '{}',
  paid_at             timestamptz,
  created_at          timestamptz NOT NULL,
  CONSTRAINT charge_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT charge_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT charge_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription,
  CONSTRAINT charge_amount_in_range CHECK (amount_kobo BETWEEN 100 AND 99999999999),
  CONSTRAINT charge_currency_ngn CHECK (currency = 'NGN'),
  CONSTRAINT charge_status_known CHECK (status IN ('pending', 'succeeded', 'failed')),
  CONSTRAINT charge_paid_is_dated CHECK ((status = 'succeeded') = (paid_at IS NOT NULL)),
  CONSTRAINT charge_failed_has_code CHECK ((status = 'failed') = (failure_code IS NOT NULL)),
  CONSTRAINT charge_bill_complete CHECK ((subscription_id IS NULL) = (bill_no IS NULL) AND (bill_no IS NULL) = (period_start_at IS NULL) AND (period_start_at IS NULL) = (period_end_at IS NULL)),
  -- A period that is paid is paid once, and no two paid periods share an instant.
  CONSTRAINT charge_period_paid_once EXCLUDE USING gist (account_id WITH =, subscription_id WITH =, tstzrange(period_start_at, period_end_at) WITH &&)
    WHERE (status = 'succeeded' AND subscription_id IS NOT NULL AND NOT refund_due)
) WITH (fillfactor = 85);
CREATE UNIQUE INDEX charge_bill_attempt_unique ON charge (subscription_id, bill_no, attempt_number, account_id, livemode) WHERE subscription_id IS NOT NULL;
-- At most one attempt at a bill is under way or has succeeded: the next waits for the last one's failure.
CREATE UNIQUE INDEX charge_bill_open_or_paid_once ON charge (subscription_id, bill_no, account_id, livemode) WHERE status <> 'failed' AND subscription_id IS NOT NULL;
CREATE INDEX charge_status ON charge (status, account_id, livemode, id) WHERE status <> 'succeeded';
CREATE INDEX charge_test_clock ON charge (test_clock_id, account_id, livemode) WHERE test_clock_id IS NOT NULL;
CREATE INDEX charge_customer ON charge (customer_id, account_id, livemode, id);
CREATE INDEX charge_sender ON charge (sender) WHERE sender IS NOT NULL;
COMMENT ON TABLE charge IS 'One attempt at a rail (spec 2.6, decision F1). Its ID is the reference that the rail knows it by.';
COMMENT ON COLUMN charge.sender IS 'The process that is talking to the rail about this charge; null while nobody is.';
COMMENT ON COLUMN charge.sent_at IS 'When the attempt was due, in the customer''s clock.';
COMMENT ON COLUMN charge.contradictions IS 'What the rail said later against its first word: a reconciliation exception, never applied (decision F2).';
