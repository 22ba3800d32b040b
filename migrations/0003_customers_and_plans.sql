-- Creates test clocks, plans, customers and their payment methods.

CREATE FUNCTION metadata_digest(key text, value text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT substring(sha256(convert_to(length(key) || ':' || key || value, 'UTF8')) FOR 16)
$$;
COMMENT ON FUNCTION metadata_digest IS 'The search key of a metadata key and value: half of a SHA-256. So a match is also compared with the metadata itself.';

CREATE TABLE test_clock (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text,
  frozen_at timestamptz NOT NULL,
  state text NOT NULL,
  version integer NOT NULL,
  runner integer,
  customer_count integer DEFAULT 0 NOT NULL,
  created_at timestamptz NOT NULL,
  deletes_at timestamptz NOT NULL,
  target_at timestamptz,
  failed_steps integer NOT NULL,
  waiting_since timestamptz,
  window_to_at timestamptz,
  window_opened_at timestamptz,
  CONSTRAINT test_clock_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT test_clock_sandbox_only CHECK (NOT livemode),
  CONSTRAINT test_clock_customers_limited CHECK (customer_count BETWEEN 0 AND 10000),
  CONSTRAINT test_clock_advancing_has_target CHECK ((state = 'ready') <= (target_at IS NULL)),
  CONSTRAINT test_clock_state_known CHECK (state IN ('ready', 'advancing', 'internal_failure', 'deleting')),
  CONSTRAINT test_clock_window CHECK ((window_to_at IS NULL) = (window_opened_at IS NULL) AND (window_to_at IS NULL OR state <> 'ready')),
  CONSTRAINT test_clock_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE test_clock IS 'Sandbox clocks. Their customers use the time of the clock.';
COMMENT ON COLUMN test_clock.runner IS 'The process that moves an advancing clock; see process liveness in docs/operating.md.';
COMMENT ON COLUMN test_clock.target_at IS 'The target time of an advance; null: the clock is not advancing.';
COMMENT ON COLUMN test_clock.failed_steps IS 'Consecutive failed steps of the advance.';
COMMENT ON COLUMN test_clock.waiting_since IS 'When the clock last joined the queue of clocks to move: at the request of its advance, or when it let others go first.';
COMMENT ON COLUMN test_clock.window_to_at IS 'The end of the advancing clock''s window, which starts at frozen_at. All timers due in it fire before the clock moves on.';
COMMENT ON COLUMN test_clock.window_opened_at IS 'When the window was opened, by the wall clock. IDs that are made in it start with this time.';
CREATE INDEX test_clock_known ON test_clock (account_id, livemode, id) WHERE state <> 'deleting';
CREATE INDEX test_clock_expiring ON test_clock (deletes_at) WHERE state IN ('ready', 'internal_failure');
CREATE INDEX test_clock_advancing ON test_clock (account_id, waiting_since NULLS FIRST) WHERE state = 'advancing';
CREATE INDEX test_clock_moving ON test_clock (account_id) WHERE state = 'advancing' AND runner IS NOT NULL;
ALTER TABLE test_clock ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON test_clock TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON test_clock TO billing_request;

CREATE TABLE plan (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  description text,
  amount_kobo bigint NOT NULL,
  currency text NOT NULL,
  billing_cycle text NOT NULL,
  trial_days integer NOT NULL,
  pause_enabled boolean NOT NULL,
  pro_rate boolean NOT NULL,
  overage_per_unit_kobo bigint,
  category text,
  service_config jsonb NOT NULL,
  retry_logic jsonb NOT NULL,
  reminders jsonb NOT NULL,
  metadata jsonb NOT NULL,
  status text DEFAULT 'active'::text NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  reminders_rescheduled_to text COLLATE "C",
  reminders_turn_at timestamptz,
  CONSTRAINT plan_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT plan_amount_in_range CHECK (amount_kobo BETWEEN 100 AND 99999999999),
  CONSTRAINT plan_currency_ngn CHECK (currency = 'NGN'),
  CONSTRAINT plan_billing_cycle_known CHECK (billing_cycle IN ('daily', 'weekly', 'monthly', 'quarterly', 'per_delivery')),
  CONSTRAINT plan_trial_days_in_range CHECK (trial_days BETWEEN 0 AND 365),
  CONSTRAINT plan_status_known CHECK (status IN ('active', 'archived')),
  CONSTRAINT plan_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE plan IS 'Plans to which customers subscribe. A subscription keeps its price: a changed amount applies only to new ones.';
COMMENT ON COLUMN plan.reminders_rescheduled_to IS 'After a change of the reminder rules: the last wall-clock subscription that is rescheduled; null: all are.';
COMMENT ON COLUMN plan.reminders_turn_at IS 'When a batch of its subscriptions was last rescheduled. The account''s plan that waited longest is next.';
CREATE INDEX plan_reminders_changed ON plan (account_id, reminders_turn_at NULLS FIRST) WHERE reminders_rescheduled_to IS NOT NULL;
CREATE INDEX plan_status ON plan (status, account_id, livemode, id);
ALTER TABLE plan ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON plan TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON plan TO billing_request;

CREATE TABLE customer (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  email text,
  phone text,
  default_payment_method_id text COLLATE "C",
  test_clock_id text COLLATE "C",
  metadata jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  email_key text GENERATED ALWAYS AS (lower(email)) STORED,
  CONSTRAINT customer_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT customer_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT customer_test_clock_fkey FOREIGN KEY (account_id, livemode, test_clock_id) REFERENCES test_clock
);
COMMENT ON TABLE customer IS 'Customers of merchants.';
COMMENT ON COLUMN customer.email_key IS 'The e-mail address in lower case, for the filter.';
CREATE INDEX customer_phone ON customer (phone, account_id, livemode, id) WHERE phone IS NOT NULL;
CREATE INDEX customer_test_clock ON customer (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
CREATE INDEX customer_email ON customer (email_key, account_id, livemode, id) WHERE email_key IS NOT NULL;
ALTER TABLE customer ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON customer TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON customer TO billing_request;

CREATE TABLE customer_metadata_pair (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  digest bytea NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  CONSTRAINT customer_metadata_pair_pkey PRIMARY KEY (account_id, livemode, digest, customer_id)
);
COMMENT ON TABLE customer_metadata_pair IS 'Index of customers by metadata key and value. Triggers of customer write it, the filter reads it.';
ALTER TABLE customer_metadata_pair ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON customer_metadata_pair TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, DELETE ON customer_metadata_pair TO billing_request;

CREATE TABLE payment_method (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  type text NOT NULL,
  brand text,
  last4 text,
  bank_name text,
  exp_month integer,
  exp_year integer,
  created_at timestamptz NOT NULL,
  attached_no bigint GENERATED ALWAYS AS IDENTITY,
  rail text DEFAULT 'simulator'::text NOT NULL,
  sealed bytea,
  email text,
  signature text,
  CONSTRAINT payment_method_pkey PRIMARY KEY (account_id, livemode, customer_id, id),
  CONSTRAINT payment_method_type_known CHECK (type IN ('card', 'bank_account', 'ussd')),
  CONSTRAINT payment_method_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave')),
  CONSTRAINT payment_method_has_token CHECK ((rail = 'simulator') = (sealed IS NULL) AND (sealed IS NULL) = (email IS NULL)),
  CONSTRAINT payment_method_token_bounded CHECK (octet_length(sealed) <= 1024 AND octet_length(email) <= 1024),
  CONSTRAINT payment_method_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT payment_method_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer ON DELETE CASCADE
);
COMMENT ON TABLE payment_method IS 'Payment methods of customers. Sandbox ones keep their pm_test_ ID, so the ID is unique per customer. No card number is ever stored.';
COMMENT ON COLUMN payment_method.attached_no IS 'The order of attaching: sandbox IDs are not in order of time.';
COMMENT ON COLUMN payment_method.rail IS 'The rail that saved it and charges it (decision P4).';
COMMENT ON COLUMN payment_method.sealed IS 'The rail''s token, encrypted with ENCRYPTION_KEY; customer and ID are the associated data. Null: the simulator needs none.';
COMMENT ON COLUMN payment_method.email IS 'The e-mail with which the rail saved it. The rail accepts the token only with this e-mail.';
COMMENT ON COLUMN payment_method.signature IS 'SHA-256 of the rail''s signature of the card, to recognise a card that is saved again.';
CREATE UNIQUE INDEX payment_method_of_card ON payment_method (customer_id, rail, signature, account_id, livemode) WHERE signature IS NOT NULL;
ALTER TABLE customer ADD CONSTRAINT customer_default_payment_method_fkey FOREIGN KEY (account_id, livemode, id, default_payment_method_id) REFERENCES payment_method(account_id, livemode, customer_id, id) DEFERRABLE;
ALTER TABLE payment_method ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON payment_method TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON payment_method TO billing_request;

CREATE FUNCTION keep_customer_metadata_pairs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    DELETE FROM customer_metadata_pair WHERE account_id = OLD.account_id AND livemode = OLD.livemode AND customer_id = OLD.id
      AND digest = ANY(ARRAY(SELECT metadata_digest(key, value) FROM jsonb_each_text(OLD.metadata)));
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO customer_metadata_pair (account_id, livemode, digest, customer_id)
    SELECT NEW.account_id, NEW.livemode, metadata_digest(key, value), NEW.id FROM jsonb_each_text(NEW.metadata);
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER customer_metadata_added AFTER INSERT ON customer FOR EACH ROW WHEN (NEW.metadata <> '{}') EXECUTE FUNCTION keep_customer_metadata_pairs();
CREATE TRIGGER customer_metadata_changed AFTER UPDATE OF metadata ON customer FOR EACH ROW WHEN (NEW.metadata <> OLD.metadata) EXECUTE FUNCTION keep_customer_metadata_pairs();
CREATE TRIGGER customer_metadata_gone AFTER DELETE ON customer FOR EACH ROW WHEN (OLD.metadata <> '{}') EXECUTE FUNCTION keep_customer_metadata_pairs();
