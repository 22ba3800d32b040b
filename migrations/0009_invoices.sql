-- The service's own invoices to merchants, and its own books.

ALTER TABLE lifecycle_journal DROP CONSTRAINT lifecycle_journal_kind_known;
ALTER TABLE lifecycle_journal ADD CONSTRAINT lifecycle_journal_kind_known CHECK (actor_kind IN ('subscription', 'charge', 'test_clock', 'invoice'));

CREATE TABLE invoice (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  id               text COLLATE "C" NOT NULL,
  state            text NOT NULL,
  version          integer NOT NULL,
  test_clock_id    text COLLATE "C",
  period_start_at  timestamptz NOT NULL,
  period_end_at    timestamptz NOT NULL,
  currency         text NOT NULL DEFAULT 'NGN',
  lines            jsonb NOT NULL,
  total_kobo       bigint NOT NULL,
  due_at           timestamptz NOT NULL,
  paid_at          timestamptz,
  created_at       timestamptz NOT NULL,
  CONSTRAINT invoice_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT invoice_period_once UNIQUE (period_start_at, account_id, livemode),
  CONSTRAINT invoice_live_only CHECK (livemode),
  CONSTRAINT invoice_wall_clock_only CHECK (test_clock_id IS NULL),
  CONSTRAINT invoice_state_known CHECK (state IN ('open', 'overdue', 'paid', 'void')),
  CONSTRAINT invoice_paid_is_dated CHECK ((state = 'paid') = (paid_at IS NOT NULL)),
  CONSTRAINT invoice_period_is_a_month CHECK (period_start_at = date_trunc('month', period_start_at, 'UTC') AND period_end_at > period_start_at)
);
CREATE INDEX invoice_id ON invoice (id);
COMMENT ON TABLE invoice IS 'What a merchant owes the service for a month (spec 2.15): drawn up once, whoever does it and however often. Its columns are the snapshot of machines/invoice.ts.';

-- The service's own books are kept like a merchant's, under an account of its own that has no keys.
INSERT INTO account (id, business_name, created_at) VALUES ('acct_service', 'The service itself', now());
INSERT INTO ledger_account (code, name, kind) VALUES
  ('fee_revenue', 'Revenue: fees of merchants', 'revenue'),
  ('bank', 'Bank', 'asset');
COMMENT ON COLUMN ledger_line.detail IS 'The rail of a clearing line, the customer of a receivable one; in the service''s own books the merchant.';

CREATE TABLE service_secret (
  name   text NOT NULL,
  value  bytea NOT NULL,
  CONSTRAINT service_secret_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE service_secret IS 'Random values that all processes share and nobody else needs, such as what signed links are signed with.';
