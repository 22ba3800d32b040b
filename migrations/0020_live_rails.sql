-- Live rails: credentials, the calls that are made to them, what callbacks say, refunds, exceptions.

ALTER TABLE account ADD COLUMN rail text NOT NULL DEFAULT 'simulator';
ALTER TABLE account ADD CONSTRAINT account_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave'));
COMMENT ON COLUMN account.rail IS 'Where new payment methods come from in live (decision P4); the sandbox always has the simulator.';

CREATE TABLE rail_credential (
  account_id   text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode     boolean NOT NULL,
  id           text COLLATE "C" NOT NULL,
  rail         text NOT NULL,
  sealed       bytea NOT NULL,
  created_at   timestamptz NOT NULL,
  replaced_at  timestamptz,
  CONSTRAINT rail_credential_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT rail_credential_rail_known CHECK (rail IN ('paystack', 'flutterwave')),
  CONSTRAINT rail_credential_live CHECK (livemode),
  CONSTRAINT rail_credential_bounded CHECK (octet_length(sealed) <= 8192)
);
CREATE UNIQUE INDEX rail_credential_current ON rail_credential (rail, account_id, livemode) WHERE replaced_at IS NULL;
COMMENT ON TABLE rail_credential IS 'What an account''s rails are called with (decisions P1, P2). Replaced ones are kept for as long as callbacks may be signed with them.';
COMMENT ON COLUMN rail_credential.sealed IS 'The credentials as JSON, encrypted under ENCRYPTION_KEY with account, rail and ID as associated data.';
ALTER TABLE rail_credential ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_credential TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);

CREATE TABLE rail_callback (
  account_id   text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode     boolean NOT NULL,
  rail         text NOT NULL,
  reference    text COLLATE "C" NOT NULL,
  received_at  timestamptz NOT NULL,
  CONSTRAINT rail_callback_pkey PRIMARY KEY (account_id, livemode, rail, reference),
  CONSTRAINT rail_callback_live CHECK (livemode),
  CONSTRAINT rail_callback_rail_known CHECK (rail IN ('paystack', 'flutterwave')),
  CONSTRAINT rail_callback_bounded CHECK (octet_length(reference) <= 200)
);
COMMENT ON TABLE rail_callback IS 'References that callbacks named and that nobody has looked into yet (decision P13). Whoever does takes the row away.';
ALTER TABLE rail_callback ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_callback TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);

ALTER TABLE payment_method ADD COLUMN rail text NOT NULL DEFAULT 'simulator', ADD COLUMN sealed bytea, ADD COLUMN email text, ADD COLUMN signature text;
ALTER TABLE payment_method ADD CONSTRAINT payment_method_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave')) NOT VALID;
ALTER TABLE payment_method ADD CONSTRAINT payment_method_has_token CHECK ((rail = 'simulator') = (sealed IS NULL) AND (sealed IS NULL) = (email IS NULL)) NOT VALID;
ALTER TABLE payment_method ADD CONSTRAINT payment_method_token_bounded CHECK (octet_length(sealed) <= 1024 AND octet_length(email) <= 1024) NOT VALID;
CREATE UNIQUE INDEX payment_method_of_card ON payment_method (customer_id, rail, signature, account_id, livemode) WHERE signature IS NOT NULL;
COMMENT ON COLUMN payment_method.rail IS 'The rail that saved it: charges with it go through that one (decision P4).';
COMMENT ON COLUMN payment_method.sealed IS 'What the rail charges it by, encrypted under ENCRYPTION_KEY with its customer and ID as associated data; null: the simulator needs none.';
COMMENT ON COLUMN payment_method.email IS 'The e-mail that the rail saved it with, and takes it with only.';
COMMENT ON COLUMN payment_method.signature IS 'SHA-256 of what the rail knows the card by, so that one that is saved again is known.';

ALTER TABLE charge ADD COLUMN purpose text NOT NULL DEFAULT 'sale', ADD COLUMN hosted boolean NOT NULL DEFAULT false, ADD COLUMN page_url text,
  ADD COLUMN page jsonb, ADD COLUMN refused_for text, ADD COLUMN rail_id text;
ALTER TABLE charge ADD CONSTRAINT charge_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave')) NOT VALID;
ALTER TABLE charge ADD CONSTRAINT charge_purpose_known CHECK (purpose IN ('sale', 'verification')) NOT VALID;
ALTER TABLE charge ADD CONSTRAINT charge_verification_sells_nothing CHECK (purpose = 'sale' OR subscription_id IS NULL AND hosted) NOT VALID;
ALTER TABLE charge ADD CONSTRAINT charge_rail_answer_bounded CHECK (octet_length(page_url) <= 2000 AND octet_length(rail_id) <= 100) NOT VALID;
ALTER TABLE charge ADD CONSTRAINT charge_purpose_by_id CHECK ((purpose = 'verification') = starts_with(id, 'cvr_')) NOT VALID;
CREATE INDEX charge_verification ON charge (account_id, livemode, id) WHERE purpose = 'verification';
COMMENT ON COLUMN charge.purpose IS 'sale; verification: money that is taken to save a card, and sent back at once (decision P8). The API shows no verification.';
COMMENT ON COLUMN charge.hosted IS 'Whether the buyer pays on the rail''s own page (decision P5).';
COMMENT ON COLUMN charge.page_url IS 'The address of that page, once it is open.';
COMMENT ON COLUMN charge.page IS 'When that page was opened, and whether the buyer has come back from it.';
COMMENT ON COLUMN charge.refused_for IS 'Why the rail did not take the attempt; it fails for that once the rail says that it knows of none.';
COMMENT ON COLUMN charge.rail_id IS 'The rail''s own number of the transaction.';

CREATE TABLE rail_call (
  account_id  text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode    boolean NOT NULL,
  id          text COLLATE "C" NOT NULL,
  rail        text NOT NULL,
  kind        text NOT NULL,
  rank        smallint NOT NULL,
  queued_at   timestamptz NOT NULL DEFAULT now(),
  sent_at     timestamptz,
  again       boolean NOT NULL DEFAULT false,
  runner      integer,
  CONSTRAINT rail_call_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT rail_call_kind_known CHECK (kind IN ('charge', 'open_page', 'ask', 'refund', 'ask_refund')),
  CONSTRAINT rail_call_live CHECK (livemode)
) WITH (fillfactor = 70);
CREATE INDEX rail_call_turn ON rail_call (rail, account_id, livemode, rank, queued_at, id);
COMMENT ON TABLE rail_call IS 'Calls that are to be made to rails, or are under way: at most one about a charge or a refund at a time (decision P11).';
COMMENT ON COLUMN rail_call.id IS 'The charge or the refund that it is about.';
COMMENT ON COLUMN rail_call.rank IS '0: somebody waits for the outcome; 1: nobody does.';
COMMENT ON COLUMN rail_call.sent_at IS 'Written before the call is made: one that a process died over is never made twice, the rail is asked instead (decision F1).';
COMMENT ON COLUMN rail_call.again IS 'Somebody wants to know more while it is under way: the rail is asked once more after it.';
ALTER TABLE rail_call ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_call TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);
GRANT SELECT, INSERT, UPDATE ON rail_call TO billing_request;

CREATE TABLE rail_throttle (
  account_id     text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode       boolean NOT NULL,
  rail           text NOT NULL,
  failing_since  timestamptz NOT NULL,
  next_call_at   timestamptz,
  CONSTRAINT rail_throttle_live CHECK (livemode),
  CONSTRAINT rail_throttle_pkey PRIMARY KEY (account_id, livemode, rail)
);
COMMENT ON TABLE rail_throttle IS 'Rails that do not answer an account at the moment (decision P9). Gone with the first answer.';
COMMENT ON COLUMN rail_throttle.next_call_at IS 'They are called once a second from then on; null: not held back yet.';
ALTER TABLE rail_throttle ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_throttle TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);

CREATE TABLE rail_exception (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  id               text COLLATE "C" NOT NULL,
  charge_id        text COLLATE "C" NOT NULL,
  kind             text NOT NULL,
  heard_reference  text,
  heard_kobo       bigint,
  heard_currency   text,
  at               timestamptz NOT NULL,
  CONSTRAINT rail_exception_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT rail_exception_live CHECK (livemode),
  CONSTRAINT rail_exception_charge_fkey FOREIGN KEY (account_id, livemode, charge_id) REFERENCES charge ON DELETE CASCADE,
  CONSTRAINT rail_exception_kind_known CHECK (kind IN ('amount_differs', 'currency_differs', 'reference_differs', 'amount_exceeds')),
  CONSTRAINT rail_exception_bounded CHECK (octet_length(heard_reference) <= 200 AND octet_length(heard_currency) <= 20)
);
CREATE UNIQUE INDEX rail_exception_once ON rail_exception (charge_id, kind, account_id, livemode);
COMMENT ON TABLE rail_exception IS 'What a rail said of a charge that cannot be right (decision P10): shown in finance.reconciliation_exceptions.';
ALTER TABLE rail_exception ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_exception TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);

ALTER TABLE lifecycle_journal DROP CONSTRAINT lifecycle_journal_kind_known;
ALTER TABLE lifecycle_journal ADD CONSTRAINT lifecycle_journal_kind_known CHECK (actor_kind IN ('subscription', 'charge', 'test_clock', 'invoice', 'webhook_endpoint', 'nudge', 'checkout_session', 'refund'));

CREATE TABLE refund (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  id               text COLLATE "C" NOT NULL,
  charge_id        text COLLATE "C" NOT NULL,
  customer_id      text COLLATE "C" NOT NULL,
  rail             text NOT NULL,
  amount_kobo      bigint NOT NULL,
  state            text NOT NULL,
  status           text NOT NULL,
  version          integer NOT NULL,
  requested_at     timestamptz NOT NULL,
  failures         integer NOT NULL,
  asks             integer NOT NULL,
  accepted         boolean NOT NULL,
  rail_refund_id   text,
  failure_message  text,
  returned_at      timestamptz,
  created_at       timestamptz NOT NULL,
  CONSTRAINT refund_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT refund_charge_fkey FOREIGN KEY (account_id, livemode, charge_id) REFERENCES charge,
  CONSTRAINT refund_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave')),
  CONSTRAINT refund_live CHECK (livemode),
  CONSTRAINT refund_status_known CHECK (status IN ('pending', 'returned', 'failed')),
  CONSTRAINT refund_returned_is_dated CHECK ((status = 'returned') = (returned_at IS NOT NULL)),
  CONSTRAINT refund_amount_positive CHECK (amount_kobo > 0)
);
CREATE UNIQUE INDEX refund_once ON refund (charge_id, account_id, livemode);
CREATE INDEX refund_failed ON refund (status, account_id, livemode, id) WHERE status = 'failed';
COMMENT ON TABLE refund IS 'Money that is sent back by a rail''s call (decision P8). Its columns are the snapshot of machines/refund.ts.';
ALTER TABLE refund ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON refund TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);

ALTER TABLE refund ADD CONSTRAINT refund_status_follows CHECK (state = status OR state LIKE status || '.%');

DROP VIEW finance.reconciliation_exceptions;
CREATE VIEW finance.reconciliation_exceptions AS
SELECT c.account_id, c.livemode, c.id AS charge, c.rail, c.customer_id AS customer, c.subscription_id AS subscription,
  CASE WHEN x.word->>'answer' = 'succeeded' THEN 'succeeded_after_failure' ELSE 'failed_after_success' END AS kind,
  c.status AS settled_as, x.word->>'answer' AS rail_says, x.word->>'code' AS failure_code, (x.word->>'at')::timestamptz AS said_at,
  c.amount_kobo, round(c.amount_kobo / 100.0, 2) AS amount_naira,
  NULL::bigint AS rail_amount_kobo, NULL::text AS rail_currency, NULL::text AS rail_reference
FROM charge c CROSS JOIN LATERAL jsonb_array_elements(c.contradictions) AS x (word)
WHERE c.contradictions <> '[]'
UNION ALL
SELECT e.account_id, e.livemode, e.charge_id, c.rail, c.customer_id, c.subscription_id, e.kind, c.status, NULL, NULL, e.at,
  c.amount_kobo, round(c.amount_kobo / 100.0, 2), e.heard_kobo, e.heard_currency, e.heard_reference
FROM rail_exception e JOIN charge c ON (c.account_id, c.livemode, c.id) = (e.account_id, e.livemode, e.charge_id)
UNION ALL
SELECT f.account_id, f.livemode, f.charge_id, f.rail, f.customer_id, NULL, 'refund_failed', 'succeeded', NULL, NULL, f.requested_at,
  f.amount_kobo, round(f.amount_kobo / 100.0, 2), NULL, NULL, NULL
FROM refund f WHERE f.status = 'failed';
COMMENT ON VIEW finance.reconciliation_exceptions IS 'What a rail said that does not fit our books (kind; docs/rails.md says what to do about each): of a settled charge the opposite of its first word, another amount, currency or reference than was asked for, or that a refund failed.';

CREATE VIEW finance.card_verifications AS
SELECT c.account_id, c.account_id AS account, c.livemode, c.customer_id AS customer, c.rail, c.id AS reference, c.amount_kobo,
  round(c.amount_kobo / 100.0, 2) AS amount_naira,
  CASE WHEN c.status = 'succeeded' THEN CASE f.status WHEN 'pending' THEN 'taken' WHEN 'failed' THEN 'refund_failed' ELSE 'returned' END ELSE c.status END AS status,
  c.paid_at AS taken_at, f.returned_at
FROM charge c LEFT JOIN refund f ON (f.charge_id, f.account_id, f.livemode) = (c.id, c.account_id, c.livemode)
WHERE c.purpose = 'verification';
COMMENT ON VIEW finance.card_verifications IS 'Money that rails took to save a payment method where nothing was due, and sent back at once: pending (not known yet), failed (nothing taken), taken, returned, refund_failed. No charge objects, and nobody''s revenue.';
