-- Creates hosted checkout and instalment plans.

CREATE TABLE checkout_session (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  mode text NOT NULL,
  plan_id text COLLATE "C",
  quantity integer,
  price_kobo bigint,
  trial_days integer,
  test_clock_id text COLLATE "C",
  success_url text NOT NULL,
  cancel_url text NOT NULL,
  metadata jsonb NOT NULL,
  token_hash text NOT NULL,
  state text NOT NULL,
  status text NOT NULL,
  version integer NOT NULL,
  customer_id text COLLATE "C",
  customer_is_new boolean NOT NULL,
  subscription_id text COLLATE "C",
  charge_id text COLLATE "C",
  payment_method_id text COLLATE "C",
  submission text,
  replaced_by text COLLATE "C",
  expires_at timestamptz NOT NULL,
  completed_at timestamptz,
  created_at timestamptz NOT NULL,
  CONSTRAINT checkout_session_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT checkout_session_mode_known CHECK (mode IN ('subscription', 'setup')),
  CONSTRAINT checkout_session_status_known CHECK (status IN ('open', 'completed', 'expired')),
  CONSTRAINT checkout_session_offer_whole CHECK ((mode = 'subscription') = (plan_id IS NOT NULL) AND (plan_id IS NULL) = (quantity IS NULL) AND (plan_id IS NULL) = (price_kobo IS NULL) AND (plan_id IS NULL) = (trial_days IS NULL)),
  CONSTRAINT checkout_session_amount_in_range CHECK (price_kobo * quantity BETWEEN 100 AND 99999999999),
  CONSTRAINT checkout_session_subscription_has_customer CHECK (subscription_id IS NULL OR customer_id IS NOT NULL AND plan_id IS NOT NULL),
  CONSTRAINT checkout_session_completed_is_dated CHECK ((status = 'completed') = (completed_at IS NOT NULL)),
  CONSTRAINT checkout_session_completed_has_customer CHECK (status <> 'completed' OR customer_id IS NOT NULL AND (subscription_id IS NULL) = (mode = 'setup')),
  CONSTRAINT checkout_session_expires_later CHECK (expires_at > created_at),
  CONSTRAINT checkout_session_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT checkout_session_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT checkout_session_plan_fkey FOREIGN KEY (account_id, livemode, plan_id) REFERENCES plan,
  CONSTRAINT checkout_session_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription
) WITH (fillfactor=80);
COMMENT ON TABLE checkout_session IS 'Hosted pages on which a buyer subscribes or saves a payment method. state, expires_at and completed_at are the snapshot of machines/checkout.ts.';
COMMENT ON COLUMN checkout_session.price_kobo IS 'Price of one unit for one period. It and trial_days are copied from the plan at creation (decision G9).';
COMMENT ON COLUMN checkout_session.token_hash IS 'SHA-256 of the token in the page''s address. The token is derived from the ID and a secret of the service.';
COMMENT ON COLUMN checkout_session.customer_is_new IS 'Whether the customer was created from the buyer''s input: the buyer may correct it on the next try.';
COMMENT ON COLUMN checkout_session.charge_id IS 'The newest payment attempt on its page.';
COMMENT ON COLUMN checkout_session.payment_method_id IS 'The payment method of the last try. If the session is completed, this one completed it.';
COMMENT ON COLUMN checkout_session.submission IS 'SHA-256 of the number of the last submitted form, to recognise a form that is sent twice.';
COMMENT ON COLUMN checkout_session.replaced_by IS 'The session of the same customer and plan that closed this one by being completed.';
CREATE UNIQUE INDEX checkout_session_link_once ON checkout_session (token_hash, account_id, livemode);
CREATE UNIQUE INDEX checkout_session_of_subscription ON checkout_session (subscription_id, account_id, livemode) WHERE subscription_id IS NOT NULL;
-- A customer pays at most one open session of a plan at a time.
CREATE UNIQUE INDEX checkout_session_paying_once ON checkout_session (customer_id, plan_id, account_id, livemode) WHERE state = 'open.paying' AND plan_id IS NOT NULL;
CREATE INDEX checkout_session_customer ON checkout_session (customer_id, account_id, livemode, id);
CREATE INDEX checkout_session_status ON checkout_session (status, account_id, livemode, id);
CREATE INDEX checkout_session_open ON checkout_session (customer_id, plan_id, account_id, livemode, id) WHERE status = 'open';
CREATE INDEX checkout_session_test_clock ON checkout_session (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
-- Deleting a plan looks for the sessions that refer to it.
CREATE INDEX checkout_session_plan ON checkout_session (plan_id, account_id, livemode, id) WHERE plan_id IS NOT NULL;
ALTER TABLE checkout_session ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON checkout_session TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON checkout_session TO billing_request;

CREATE TABLE instalment_product (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  description text,
  price_kobo bigint NOT NULL,
  image text,
  cycle_months integer NOT NULL,
  mode text NOT NULL,
  allowed_frequencies text[] NOT NULL,
  slots_total integer,
  slots_used integer NOT NULL,
  family_id text,
  late_fee_kobo bigint NOT NULL,
  refund_window_days integer NOT NULL,
  is_active boolean NOT NULL,
  views bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT instalment_product_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT instalment_product_mode_known CHECK (mode IN ('fixed', 'flexible')),
  CONSTRAINT instalment_product_frequencies_known CHECK (allowed_frequencies <@ ARRAY['daily', 'weekly', 'biweekly', 'monthly'] AND (mode = 'flexible' OR cardinality(allowed_frequencies) > 0)),
  CONSTRAINT instalment_product_cycle_in_range CHECK (cycle_months BETWEEN 1 AND 24),
  CONSTRAINT instalment_product_price_in_range CHECK (price_kobo BETWEEN 20000 AND 99999999900 AND price_kobo % 100 = 0),
  CONSTRAINT instalment_product_fee_in_range CHECK (late_fee_kobo BETWEEN 0 AND 99999999900 AND late_fee_kobo % 100 = 0),
  CONSTRAINT instalment_product_never_oversold CHECK (slots_used BETWEEN 0 AND coalesce(slots_total, slots_used)),
  CONSTRAINT instalment_product_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
) WITH (fillfactor=80);
COMMENT ON TABLE instalment_product IS 'Products that merchants sell in instalments. Amounts are whole naira, stored as kobo.';
COMMENT ON COLUMN instalment_product.slots_used IS 'The number of plans that are not cancelled, counted by a trigger of instalment_plan. A full product accepts no new plan.';
COMMENT ON COLUMN instalment_product.views IS 'Views of its public page; written every few seconds.';
-- A public path finds the account of a product by the product's ID alone.
CREATE INDEX instalment_product_id ON instalment_product (id);
ALTER TABLE instalment_product ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON instalment_product TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON instalment_product TO billing_request;

CREATE TABLE instalment_plan (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  product_id text COLLATE "C" NOT NULL,
  product_name text NOT NULL,
  product_image text,
  customer_id text COLLATE "C" NOT NULL,
  test_clock_id text COLLATE "C",
  token_hash text NOT NULL,
  state text NOT NULL,
  status text NOT NULL,
  version integer NOT NULL,
  mode text NOT NULL,
  frequency text,
  target_kobo bigint NOT NULL,
  late_fee_kobo bigint NOT NULL,
  refund_window_days integer NOT NULL,
  instalments jsonb NOT NULL,
  deadline_at timestamptz NOT NULL,
  paid_kobo bigint NOT NULL,
  fees_paid_kobo bigint NOT NULL,
  pending_fee_kobo bigint NOT NULL,
  missed_kobo bigint NOT NULL,
  payments integer NOT NULL,
  paying_charge_id text COLLATE "C",
  charge_id text COLLATE "C",
  charge_settled_at timestamptz,
  reminded_at timestamptz NOT NULL,
  completed_at timestamptz,
  shipped_at timestamptz,
  delivered_at timestamptz,
  refund_window_ends_at timestamptz,
  cancelled_at timestamptz,
  created_at timestamptz NOT NULL,
  created_no bigint GENERATED ALWAYS AS IDENTITY,
  CONSTRAINT instalment_plan_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT instalment_plan_status_known CHECK (status IN ('pending', 'active', 'overdue', 'completed', 'shipped', 'delivered', 'cancelled')),
  CONSTRAINT instalment_plan_mode_known CHECK (mode IN ('fixed', 'flexible')),
  CONSTRAINT instalment_plan_frequency_known CHECK (frequency IN ('daily', 'weekly', 'biweekly', 'monthly')),
  CONSTRAINT instalment_plan_fixed_has_frequency CHECK ((mode = 'fixed') = (frequency IS NOT NULL)),
  CONSTRAINT instalment_plan_paid_in_range CHECK (paid_kobo BETWEEN 0 AND target_kobo AND fees_paid_kobo >= 0 AND pending_fee_kobo >= 0 AND missed_kobo BETWEEN 0 AND target_kobo - paid_kobo),
  CONSTRAINT instalment_plan_whole_naira CHECK (target_kobo % 100 = 0 AND paid_kobo % 100 = 0 AND fees_paid_kobo % 100 = 0 AND pending_fee_kobo % 100 = 0),
  CONSTRAINT instalment_plan_completed_is_paid CHECK ((completed_at IS NOT NULL) = (status IN ('completed', 'shipped', 'delivered')) AND (completed_at IS NULL OR paid_kobo = target_kobo AND pending_fee_kobo = 0)),
  CONSTRAINT instalment_plan_shipped_is_dated CHECK ((shipped_at IS NOT NULL) = (status IN ('shipped', 'delivered'))),
  CONSTRAINT instalment_plan_delivered_is_dated CHECK ((delivered_at IS NOT NULL) = (status = 'delivered') AND (refund_window_ends_at IS NULL) = (delivered_at IS NULL)),
  CONSTRAINT instalment_plan_cancelled_is_dated CHECK ((cancelled_at IS NOT NULL) = (status = 'cancelled')),
  CONSTRAINT instalment_plan_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT instalment_plan_product_fkey FOREIGN KEY (account_id, livemode, product_id) REFERENCES instalment_product,
  CONSTRAINT instalment_plan_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer
) WITH (fillfactor=80, toast_tuple_target=128);
COMMENT ON TABLE instalment_plan IS 'Buyers'' plans to pay for a product in instalments, on the product''s terms at the start. state and the columns that depend on it are the snapshot of machines/instalment.ts.';
COMMENT ON COLUMN instalment_plan.token_hash IS 'SHA-256 of the token in the address of the buyer''s page. The token is derived from the account, the environment, the ID and a secret of the service.';
COMMENT ON COLUMN instalment_plan.instalments IS 'The schedule: dueAt, amountKobo, status and paidAt of each instalment. A flexible plan has one instalment of the full amount at the deadline, which the API does not show.';
COMMENT ON COLUMN instalment_plan.missed_kobo IS 'The unpaid amount of missed instalments.';
COMMENT ON COLUMN instalment_plan.paying_charge_id IS 'The pending payment.';
COMMENT ON COLUMN instalment_plan.charge_id IS 'The newest payment attempt.';
COMMENT ON COLUMN instalment_plan.charge_settled_at IS 'When the newest payment succeeded, by the wall clock. A form that was sent before was meant for the amount that it paid.';
COMMENT ON COLUMN instalment_plan.created_no IS 'The order of lists, because IDs are random.';
CREATE UNIQUE INDEX instalment_plan_link_once ON instalment_plan (token_hash, account_id, livemode);
CREATE INDEX instalment_plan_product ON instalment_plan (product_id, account_id, livemode, status) INCLUDE (target_kobo, paid_kobo, fees_paid_kobo, missed_kobo, payments, created_no, id);
CREATE INDEX instalment_plan_customer ON instalment_plan (customer_id, account_id, livemode, id);
CREATE INDEX instalment_plan_status ON instalment_plan (status, account_id, livemode, created_no) INCLUDE (id);
CREATE INDEX instalment_plan_test_clock ON instalment_plan (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
-- These start with the account, and are partial so that a look-up by primary key cannot use them.
CREATE INDEX instalment_plan_created ON instalment_plan (account_id, livemode, created_at) WHERE created_at IS NOT NULL;
CREATE INDEX instalment_plan_newest ON instalment_plan (account_id, livemode, created_no) INCLUDE (id) WHERE created_no > 0;
ALTER TABLE nudge ADD CONSTRAINT nudge_instalment_plan_fkey FOREIGN KEY (account_id, livemode, instalment_plan_id) REFERENCES instalment_plan;
ALTER TABLE instalment_plan ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON instalment_plan TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON instalment_plan TO billing_request;

CREATE FUNCTION count_instalment_slots() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE product record;
BEGIN
  FOR product IN EXECUTE CASE TG_OP
    WHEN 'INSERT' THEN 'SELECT account_id, livemode, product_id, count(*) AS change FROM added WHERE status <> ''cancelled'' GROUP BY 1, 2, 3 ORDER BY 3'
    WHEN 'DELETE' THEN 'SELECT account_id, livemode, product_id, -count(*) AS change FROM gone WHERE status <> ''cancelled'' GROUP BY 1, 2, 3 ORDER BY 3'
    ELSE 'SELECT n.account_id, n.livemode, n.product_id, -count(*) AS change FROM gone o JOIN added n ON (n.account_id, n.livemode, n.id) = (o.account_id, o.livemode, o.id)
      WHERE o.status <> ''cancelled'' AND n.status = ''cancelled'' GROUP BY 1, 2, 3 ORDER BY 3'
  END LOOP
    UPDATE instalment_product p SET slots_used = p.slots_used + product.change
    WHERE (p.account_id, p.livemode, p.id) = (product.account_id, product.livemode, product.product_id);
  END LOOP;
  RETURN NULL;
END $$;

CREATE TRIGGER instalment_plan_takes_slot AFTER INSERT ON instalment_plan REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_instalment_slots();
CREATE TRIGGER instalment_plan_releases_slot AFTER UPDATE ON instalment_plan REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_instalment_slots();
CREATE TRIGGER instalment_plan_leaves_slot AFTER DELETE ON instalment_plan REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_instalment_slots();
