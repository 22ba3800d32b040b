-- Creates the tables of external payment rails: credentials, calls, callbacks and refunds.

CREATE TABLE rail_credential (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  rail text NOT NULL,
  sealed bytea NOT NULL,
  created_at timestamptz NOT NULL,
  replaced_at timestamptz,
  CONSTRAINT rail_credential_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT rail_credential_rail_known CHECK (rail IN ('paystack', 'flutterwave')),
  CONSTRAINT rail_credential_live CHECK (livemode),
  CONSTRAINT rail_credential_bounded CHECK (octet_length(sealed) <= 8192),
  CONSTRAINT rail_credential_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE rail_credential IS 'Credentials of accounts at rails (decisions P1, P2). Replaced ones are stored as long as they may sign callbacks.';
COMMENT ON COLUMN rail_credential.sealed IS 'The credentials as JSON, encrypted with ENCRYPTION_KEY; account, rail and ID are the associated data.';
CREATE UNIQUE INDEX rail_credential_current ON rail_credential (rail, account_id, livemode) WHERE replaced_at IS NULL;
ALTER TABLE rail_credential ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_credential TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));

CREATE TABLE rail_call (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  rail text NOT NULL,
  kind text NOT NULL,
  rank smallint NOT NULL,
  queued_at timestamptz DEFAULT now() NOT NULL,
  sent_at timestamptz,
  again boolean DEFAULT false NOT NULL,
  runner integer,
  CONSTRAINT rail_call_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT rail_call_kind_known CHECK (kind IN ('charge', 'open_page', 'ask', 'refund', 'ask_refund')),
  CONSTRAINT rail_call_live CHECK (livemode),
  CONSTRAINT rail_call_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
) WITH (fillfactor=70);
COMMENT ON TABLE rail_call IS 'Calls to rails, queued or in flight: at most one at a time for a charge or refund (decision P11).';
COMMENT ON COLUMN rail_call.id IS 'The ID of the charge or refund of the call.';
COMMENT ON COLUMN rail_call.rank IS '0: a request waits for the outcome; 1: no request waits.';
COMMENT ON COLUMN rail_call.sent_at IS 'Written before the call is made. If the process dies, the rail is asked about the call; it is sent again only if the rail does not know it (decisions F1, P9).';
COMMENT ON COLUMN rail_call.again IS 'A query was requested while the call is in flight: the rail is asked again after it.';
CREATE INDEX rail_call_turn ON rail_call (rail, account_id, livemode, rank, queued_at, id);
ALTER TABLE rail_call ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_call TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE ON rail_call TO billing_request;

CREATE TABLE rail_throttle (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  rail text NOT NULL,
  failing_since timestamptz NOT NULL,
  next_call_at timestamptz,
  CONSTRAINT rail_throttle_pkey PRIMARY KEY (account_id, livemode, rail),
  CONSTRAINT rail_throttle_live CHECK (livemode),
  CONSTRAINT rail_throttle_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE rail_throttle IS 'Rails that do not answer an account at the moment (decision P9). The first answer deletes the row.';
COMMENT ON COLUMN rail_throttle.next_call_at IS 'When the next call may be made; then one call a second. Null: not throttled yet.';
ALTER TABLE rail_throttle ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_throttle TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));

CREATE TABLE rail_callback (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  rail text NOT NULL,
  reference text COLLATE "C" NOT NULL,
  received_at timestamptz NOT NULL,
  denies boolean DEFAULT false NOT NULL,
  CONSTRAINT rail_callback_pkey PRIMARY KEY (account_id, livemode, rail, reference),
  CONSTRAINT rail_callback_live CHECK (livemode),
  CONSTRAINT rail_callback_rail_known CHECK (rail IN ('paystack', 'flutterwave')),
  CONSTRAINT rail_callback_bounded CHECK (octet_length(reference) <= 200),
  CONSTRAINT rail_callback_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE rail_callback IS 'References in callbacks that are not processed yet (decision P13). Processing deletes the row.';
COMMENT ON COLUMN rail_callback.denies IS 'Whether a callback says that the payment failed or was sent back. Then the rail is asked even about a paid charge.';
ALTER TABLE rail_callback ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_callback TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));

CREATE TABLE rail_exception (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  charge_id text COLLATE "C" NOT NULL,
  kind text NOT NULL,
  heard_reference text,
  heard_kobo bigint,
  heard_currency text,
  at timestamptz NOT NULL,
  CONSTRAINT rail_exception_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT rail_exception_live CHECK (livemode),
  CONSTRAINT rail_exception_kind_known CHECK (kind IN ('amount_differs', 'currency_differs', 'reference_differs', 'amount_exceeds')),
  CONSTRAINT rail_exception_bounded CHECK (octet_length(heard_reference) <= 200 AND octet_length(heard_currency) <= 20),
  CONSTRAINT rail_exception_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT rail_exception_charge_fkey FOREIGN KEY (account_id, livemode, charge_id) REFERENCES charge ON DELETE CASCADE
);
COMMENT ON TABLE rail_exception IS 'Results of rails that do not match their charge (decision P10). finance.reconciliation_exceptions shows them.';
CREATE UNIQUE INDEX rail_exception_once ON rail_exception (charge_id, kind, account_id, livemode);
ALTER TABLE rail_exception ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON rail_exception TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));

CREATE TABLE refund (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  charge_id text COLLATE "C" NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  rail text NOT NULL,
  amount_kobo bigint NOT NULL,
  state text NOT NULL,
  status text NOT NULL,
  version integer NOT NULL,
  requested_at timestamptz NOT NULL,
  failures integer NOT NULL,
  asks integer NOT NULL,
  accepted boolean NOT NULL,
  rail_refund_id text,
  failure_message text,
  returned_at timestamptz,
  created_at timestamptz NOT NULL,
  CONSTRAINT refund_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT refund_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave')),
  CONSTRAINT refund_live CHECK (livemode),
  CONSTRAINT refund_status_known CHECK (status IN ('pending', 'returned', 'failed')),
  CONSTRAINT refund_returned_is_dated CHECK ((status = 'returned') = (returned_at IS NOT NULL)),
  CONSTRAINT refund_amount_positive CHECK (amount_kobo > 0),
  CONSTRAINT refund_status_follows CHECK (state = status OR state LIKE status || '.%'),
  CONSTRAINT refund_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT refund_charge_fkey FOREIGN KEY (account_id, livemode, charge_id) REFERENCES charge
);
COMMENT ON TABLE refund IS 'Refunds that rails make (decision P8). The columns are the snapshot of machines/refund.ts.';
CREATE UNIQUE INDEX refund_once ON refund (charge_id, account_id, livemode);
CREATE INDEX refund_failed ON refund (status, account_id, livemode, id) WHERE status = 'failed';
ALTER TABLE refund ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON refund TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
