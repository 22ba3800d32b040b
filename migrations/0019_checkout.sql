-- Hosted checkout sessions, and the pages on which charges are made.

ALTER TABLE lifecycle_journal DROP CONSTRAINT lifecycle_journal_kind_known;
ALTER TABLE lifecycle_journal ADD CONSTRAINT lifecycle_journal_kind_known CHECK (actor_kind IN ('subscription', 'charge', 'test_clock', 'invoice', 'webhook_endpoint', 'nudge', 'checkout_session'));

CREATE TABLE checkout_session (
  account_id         text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode           boolean NOT NULL,
  id                 text COLLATE "C" NOT NULL,
  mode               text NOT NULL,
  plan_id            text COLLATE "C",
  quantity           integer,
  price_kobo         bigint,
  trial_days         integer,
  test_clock_id      text COLLATE "C",
  success_url        text NOT NULL,
  cancel_url         text NOT NULL,
  metadata           jsonb NOT NULL,
  token_hash         text NOT NULL,
  state              text NOT NULL,
  status             text NOT NULL,
  version            integer NOT NULL,
  customer_id        text COLLATE "C",
  customer_is_new    boolean NOT NULL,
  subscription_id    text COLLATE "C",
  charge_id          text COLLATE "C",
  payment_method_id  text COLLATE "C",
  submission         text,
  replaced_by        text COLLATE "C",
  expires_at         timestamptz NOT NULL,
  completed_at       timestamptz,
  created_at         timestamptz NOT NULL,
  CONSTRAINT checkout_session_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT checkout_session_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT checkout_session_plan_fkey FOREIGN KEY (account_id, livemode, plan_id) REFERENCES plan,
  CONSTRAINT checkout_session_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription,
  CONSTRAINT checkout_session_mode_known CHECK (mode IN ('subscription', 'setup')),
  CONSTRAINT checkout_session_status_known CHECK (status IN ('open', 'completed', 'expired')),
  CONSTRAINT checkout_session_offer_whole CHECK ((mode = 'subscription') = (plan_id IS NOT NULL) AND (plan_id IS NULL) = (quantity IS NULL)
    AND (plan_id IS NULL) = (price_kobo IS NULL) AND (plan_id IS NULL) = (trial_days IS NULL)),
  CONSTRAINT checkout_session_amount_in_range CHECK (price_kobo * quantity BETWEEN 100 AND 99999999999),
  CONSTRAINT checkout_session_subscription_has_customer CHECK (subscription_id IS NULL OR customer_id IS NOT NULL AND plan_id IS NOT NULL),
  CONSTRAINT checkout_session_completed_is_dated CHECK ((status = 'completed') = (completed_at IS NOT NULL)),
  CONSTRAINT checkout_session_completed_has_customer CHECK (status <> 'completed' OR customer_id IS NOT NULL AND (subscription_id IS NULL) = (mode = 'setup')),
  CONSTRAINT checkout_session_expires_later CHECK (expires_at > created_at)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX checkout_session_link_once ON checkout_session (token_hash, account_id, livemode);
CREATE UNIQUE INDEX checkout_session_of_subscription ON checkout_session (subscription_id, account_id, livemode) WHERE subscription_id IS NOT NULL;
-- Of the sessions that a customer has open for a plan, at most one is being paid.
CREATE UNIQUE INDEX checkout_session_paying_once ON checkout_session (customer_id, plan_id, account_id, livemode) WHERE state = 'open.paying' AND plan_id IS NOT NULL;
CREATE INDEX checkout_session_customer ON checkout_session (customer_id, account_id, livemode, id);
CREATE INDEX checkout_session_status ON checkout_session (status, account_id, livemode, id);
CREATE INDEX checkout_session_open ON checkout_session (customer_id, plan_id, account_id, livemode, id) WHERE status = 'open';
CREATE INDEX checkout_session_test_clock ON checkout_session (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
-- Who deletes a plan's row looks for those that refer to it.
CREATE INDEX checkout_session_plan ON checkout_session (plan_id, account_id, livemode, id) WHERE plan_id IS NOT NULL;
COMMENT ON TABLE checkout_session IS 'A hosted page on which a buyer subscribes, or saves a payment method. state, expires_at and completed_at are the snapshot of machines/checkout.ts.';
COMMENT ON COLUMN checkout_session.price_kobo IS 'Price of one for one period, kept from the plan as it was on creation, with trial_days (decision G9).';
COMMENT ON COLUMN checkout_session.token_hash IS 'SHA-256 of the token in its address. The token follows from the ID and a secret of the service.';
COMMENT ON COLUMN checkout_session.customer_is_new IS 'Whether the customer was created from what the buyer typed: who tries again may correct it.';
COMMENT ON COLUMN checkout_session.charge_id IS 'The newest payment that was tried on its page.';
COMMENT ON COLUMN checkout_session.payment_method_id IS 'The payment method that was tried last, which completed it if it is completed.';
COMMENT ON COLUMN checkout_session.submission IS 'SHA-256 of what numbers the form that was submitted last, so that one sent twice is known by it.';
COMMENT ON COLUMN checkout_session.replaced_by IS 'The session of the same customer and plan that was completed while this one was open, which closed it.';

ALTER TABLE checkout_session ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON checkout_session TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);
GRANT SELECT, INSERT, UPDATE, DELETE ON checkout_session TO billing_request;

ALTER TABLE charge ADD COLUMN page_id text COLLATE "C", ADD COLUMN submission text;
CREATE INDEX charge_page ON charge (page_id, account_id, livemode, id) WHERE page_id IS NOT NULL;
COMMENT ON COLUMN charge.page_id IS 'The checkout session, or the nudge with the payment link, on whose page the buyer made it; null: not on a page.';
COMMENT ON COLUMN charge.submission IS 'SHA-256 of what numbers the form that was submitted there, so that one sent twice is known by it.';
