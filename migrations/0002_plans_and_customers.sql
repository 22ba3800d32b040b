-- What is sold, to whom, paid how, and on which clock.

CREATE TABLE plan (
  account_id             text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode               boolean NOT NULL,
  id                     text COLLATE "C" NOT NULL,
  name                   text NOT NULL,
  description            text,
  amount_kobo            bigint NOT NULL,
  currency               text NOT NULL,
  billing_cycle          text NOT NULL,
  trial_days             integer NOT NULL,
  pause_enabled          boolean NOT NULL,
  pro_rate               boolean NOT NULL,
  overage_per_unit_kobo  bigint,
  category               text,
  service_config         jsonb NOT NULL,
  retry_logic            jsonb NOT NULL,
  reminders              jsonb NOT NULL,
  metadata               jsonb NOT NULL,
  status                 text NOT NULL DEFAULT 'active',
  created_at             timestamptz NOT NULL,
  updated_at             timestamptz NOT NULL,
  CONSTRAINT plan_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT plan_amount_in_range CHECK (amount_kobo BETWEEN 100 AND 99999999999),
  CONSTRAINT plan_currency_ngn CHECK (currency = 'NGN'),
  CONSTRAINT plan_billing_cycle_known CHECK (billing_cycle IN ('daily', 'weekly', 'monthly', 'quarterly', 'per_delivery')),
  CONSTRAINT plan_trial_days_in_range CHECK (trial_days BETWEEN 0 AND 365),
  CONSTRAINT plan_status_known CHECK (status IN ('active', 'archived'))
);
COMMENT ON TABLE plan IS 'What customers subscribe to (spec 2.2). Subscriptions keep their own price: a changed amount reaches new ones only.';

CREATE TABLE test_clock (
  account_id  text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode    boolean NOT NULL,
  id          text COLLATE "C" NOT NULL,
  name        text,
  frozen_at   timestamptz NOT NULL,
  state       text NOT NULL,
  context     jsonb NOT NULL,
  version     integer NOT NULL,
  runner      integer,
  customer_count integer NOT NULL DEFAULT 0,
  created_at  timestamptz NOT NULL,
  deletes_at  timestamptz NOT NULL,
  CONSTRAINT test_clock_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT test_clock_sandbox_only CHECK (NOT livemode),
  CONSTRAINT test_clock_customers_limited CHECK (customer_count BETWEEN 0 AND 10000),
  CONSTRAINT test_clock_state_known CHECK (state IN ('ready', 'advancing', 'internal_failure'))
);
CREATE INDEX test_clock_deletes_at ON test_clock (deletes_at);
CREATE INDEX test_clock_advancing ON test_clock (id) WHERE state = 'advancing';
COMMENT ON TABLE test_clock IS 'Sandbox clocks (spec 2.11): their customers live in the time at which the clock stands.';
COMMENT ON COLUMN test_clock.runner IS 'The process that moves the clock while it is advancing; see process liveness in docs/operating.md.';

CREATE TABLE customer (
  account_id                 text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode                   boolean NOT NULL,
  id                         text COLLATE "C" NOT NULL,
  name                       text NOT NULL,
  email                      text,
  phone                      text,
  default_payment_method_id  text COLLATE "C",
  test_clock_id              text COLLATE "C",
  metadata                   jsonb NOT NULL,
  created_at                 timestamptz NOT NULL,
  CONSTRAINT customer_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT customer_test_clock_fkey FOREIGN KEY (account_id, livemode, test_clock_id) REFERENCES test_clock
);
CREATE INDEX customer_email ON customer (lower(email), account_id, livemode, id) WHERE email IS NOT NULL;
CREATE INDEX customer_phone ON customer (phone, account_id, livemode, id) WHERE phone IS NOT NULL;
CREATE INDEX customer_test_clock ON customer (test_clock_id, account_id, livemode) WHERE test_clock_id IS NOT NULL;
CREATE INDEX customer_metadata ON customer USING gin (metadata jsonb_path_ops) WHERE metadata <> '{}';
COMMENT ON TABLE customer IS 'Whom a merchant bills (spec 2.4).';

CREATE TABLE payment_method (
  account_id   text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode     boolean NOT NULL,
  id           text COLLATE "C" NOT NULL,
  customer_id  text COLLATE "C" NOT NULL,
  type         text NOT NULL,
  brand        text,
  last4        text,
  bank_name    text,
  exp_month    integer,
  exp_year     integer,
  created_at   timestamptz NOT NULL,
  CONSTRAINT payment_method_pkey PRIMARY KEY (account_id, livemode, customer_id, id),
  CONSTRAINT payment_method_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer ON DELETE CASCADE,
  CONSTRAINT payment_method_type_known CHECK (type IN ('card', 'bank_account', 'ussd'))
);
COMMENT ON TABLE payment_method IS 'Ways to pay that are attached to a customer (spec 2.3). Sandbox ones keep their pm_test_ ID, so the ID is unique per customer. No card number is ever stored.';

ALTER TABLE customer ADD CONSTRAINT customer_default_payment_method_fkey
  FOREIGN KEY (account_id, livemode, id, default_payment_method_id) REFERENCES payment_method (account_id, livemode, customer_id, id) DEFERRABLE INITIALLY IMMEDIATE;
