-- The double-entry ledger: append-only, balanced per entry and currency, guarded by the database itself.

CREATE TABLE ledger_account (
  code  text NOT NULL,
  name  text NOT NULL,
  kind  text NOT NULL,
  CONSTRAINT ledger_account_pkey PRIMARY KEY (code),
  CONSTRAINT ledger_account_kind_known CHECK (kind IN ('asset', 'liability', 'revenue', 'expense'))
);
COMMENT ON TABLE ledger_account IS 'The chart of accounts (src/ledger/chart.ts).';
INSERT INTO ledger_account (code, name, kind) VALUES
  ('clearing', 'Clearing: money at the payment rails', 'asset'),
  ('receivable', 'Receivable: what customers owe', 'asset'),
  ('deferred_revenue', 'Deferred revenue: paid or owed for periods', 'liability'),
  ('refunds_payable', 'Refunds payable', 'liability'),
  ('usage_revenue', 'Revenue: reported units', 'revenue'),
  ('one_off_revenue', 'Revenue: one-off charges', 'revenue'),
  ('bad_debt', 'Bad debt: services given and never paid', 'expense');

CREATE TABLE ledger_entry (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  id               text COLLATE "C" NOT NULL,
  event            text NOT NULL,
  idempotency_key  text NOT NULL,
  customer_id      text COLLATE "C",
  subscription_id  text COLLATE "C",
  charge_id        text COLLATE "C",
  effective_on     date NOT NULL,
  posted_at        timestamptz NOT NULL DEFAULT now(),
  line_count       smallint NOT NULL,
  reverses         text COLLATE "C",
  CONSTRAINT ledger_entry_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT ledger_entry_posted_once UNIQUE (idempotency_key, account_id, livemode),
  CONSTRAINT ledger_entry_has_lines CHECK (line_count >= 2),
  CONSTRAINT ledger_entry_reverses_fkey FOREIGN KEY (account_id, livemode, reverses) REFERENCES ledger_entry
);
COMMENT ON TABLE ledger_entry IS 'One business fact in the books. Corrections are further entries that name the one they reverse.';
COMMENT ON COLUMN ledger_entry.idempotency_key IS 'What the entry is about, once for ever, such as owed:sub_…:3.';

CREATE TABLE ledger_line (
  account_id      text COLLATE "C" NOT NULL,
  livemode        boolean NOT NULL,
  entry_id        text COLLATE "C" NOT NULL,
  line_no         smallint NOT NULL,
  ledger_account  text NOT NULL REFERENCES ledger_account (code),
  detail          text,
  currency        text NOT NULL,
  amount_kobo     bigint NOT NULL,
  CONSTRAINT ledger_line_pkey PRIMARY KEY (account_id, livemode, entry_id, line_no),
  CONSTRAINT ledger_line_amount_not_zero CHECK (amount_kobo <> 0),
  CONSTRAINT ledger_line_currency_ngn CHECK (currency = 'NGN')
);
CREATE INDEX ledger_line_by_account ON ledger_line (ledger_account, account_id, livemode);
CREATE INDEX ledger_entry_by_charge ON ledger_entry (charge_id) WHERE charge_id IS NOT NULL;
COMMENT ON TABLE ledger_line IS 'Debits are positive, credits negative; the lines of an entry sum to zero. They arrive in one statement with it, and nothing changes them after.';
COMMENT ON COLUMN ledger_line.detail IS 'The rail of a clearing line, the customer of a receivable one.';

-- The lines of an entry arrive whole, numbered 1 to line_count, in one statement: so they are checked among the new
-- rows alone, and the primary key leaves no number for a line that comes later.
CREATE FUNCTION check_new_ledger_lines() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE bad record;
BEGIN
  SELECT l.entry_id, e.id IS NULL AS orphan, l.lines <> coalesce(e.line_count, 0) OR l.first <> 1 OR l.last <> coalesce(e.line_count, 0) AS partial INTO bad
  FROM (
    SELECT account_id, livemode, entry_id, count(*) AS lines, min(line_no) AS first, max(line_no) AS last,
      sum(amount_kobo) AS total, count(DISTINCT currency) AS currencies
    FROM new_lines GROUP BY account_id, livemode, entry_id
  ) l
  LEFT JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
  WHERE e.id IS NULL OR l.lines <> e.line_count OR l.first <> 1 OR l.last <> e.line_count OR l.total <> 0 OR l.currencies <> 1
  LIMIT 1;
  IF bad.orphan THEN
    RAISE EXCEPTION 'ledger line of %: there is no such entry', bad.entry_id USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'ledger_line_has_entry';
  ELSIF bad.partial THEN
    RAISE EXCEPTION 'ledger entry %: its lines must arrive with it, all in one statement', bad.entry_id USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_line_arrives_with_entry';
  ELSIF bad.entry_id IS NOT NULL THEN
    RAISE EXCEPTION 'ledger entry % does not balance', bad.entry_id USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_entry_balances';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER ledger_line_whole AFTER INSERT ON ledger_line
  REFERENCING NEW TABLE AS new_lines FOR EACH STATEMENT EXECUTE FUNCTION check_new_ledger_lines();

CREATE FUNCTION check_new_ledger_entries() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE bad text;
BEGIN
  SELECT e.id INTO bad FROM new_entries e
  -- A count, not NOT EXISTS: that could become a join over the whole table, this is a look-up for each entry.
  WHERE (SELECT count(*) FROM ledger_line l WHERE (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)) = 0
  LIMIT 1;
  IF bad IS NOT NULL THEN
    RAISE EXCEPTION 'ledger entry %: its lines must arrive with it, all in one statement', bad USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_line_arrives_with_entry';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER ledger_entry_whole AFTER INSERT ON ledger_entry
  REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT EXECUTE FUNCTION check_new_ledger_entries();

CREATE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the ledger is append-only: % on % is refused; post a reversing entry', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_append_only';
END $$;
CREATE TRIGGER ledger_entry_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();
CREATE TRIGGER ledger_line_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_line FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();
CREATE TRIGGER ledger_account_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_account FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();

CREATE SCHEMA finance;
COMMENT ON SCHEMA finance IS 'Views for people: readable names, naira beside kobo.';

CREATE VIEW finance.trial_balance AS
SELECT l.account_id, l.livemode, l.ledger_account, a.name, a.kind, l.currency,
  coalesce(sum(l.amount_kobo) FILTER (WHERE l.amount_kobo > 0), 0)::bigint AS debit_kobo,
  coalesce(-sum(l.amount_kobo) FILTER (WHERE l.amount_kobo < 0), 0)::bigint AS credit_kobo,
  sum(l.amount_kobo)::bigint AS balance_kobo,
  round(sum(l.amount_kobo) / 100.0, 2) AS balance_naira
FROM ledger_line l JOIN ledger_account a ON a.code = l.ledger_account
GROUP BY l.account_id, l.livemode, l.ledger_account, a.name, a.kind, l.currency;
COMMENT ON VIEW finance.trial_balance IS 'Debits, credits and balance of each ledger account, per merchant and environment. Balances of one merchant and environment sum to zero; debit balances are positive.';
