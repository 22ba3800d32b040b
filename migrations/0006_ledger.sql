-- Creates the books: a double-entry ledger that the database keeps balanced, revenue schedules, and movements of recurring revenue.

CREATE FUNCTION recognised_kobo(amount bigint, start_on date, end_on date, by_day date) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT amount * least(greatest(by_day - start_on + 1, 0), end_on - start_on) / (end_on - start_on)
$$;
COMMENT ON FUNCTION recognised_kobo IS 'Returns the revenue recognised by the end of a day, as recognisedKobo of src/ledger/schedule.ts computes it: the cumulative amount, rounded down.';

CREATE FUNCTION monthly_kobo(cycle text, kobo bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT round(CASE cycle WHEN 'daily' THEN kobo * 365 / 12.0 WHEN 'weekly' THEN kobo * 365 / 84.0 WHEN 'monthly' THEN kobo WHEN 'quarterly' THEN kobo / 3.0 ELSE 0 END)::bigint
$$;
COMMENT ON FUNCTION monthly_kobo IS 'Returns the monthly price, as mrrOf of src/billing/subscription/mrr.ts computes it: a year''s price divided by twelve. Billing by deliveries has no monthly price: 0.';

-- The double-entry ledger is append-only and balanced per entry and currency. Triggers enforce both.
CREATE TABLE ledger_account (
  code text NOT NULL,
  name text NOT NULL,
  kind text NOT NULL,
  CONSTRAINT ledger_account_pkey PRIMARY KEY (code),
  CONSTRAINT ledger_account_kind_known CHECK (kind IN ('asset', 'liability', 'revenue', 'expense'))
);
COMMENT ON TABLE ledger_account IS 'The chart of accounts (src/ledger/chart.ts).';
GRANT SELECT ON ledger_account TO billing_request;

CREATE TABLE ledger_entry (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  event text NOT NULL,
  idempotency_key text NOT NULL,
  customer_id text COLLATE "C",
  subscription_id text COLLATE "C",
  charge_id text COLLATE "C",
  effective_on date NOT NULL,
  posted_at timestamptz DEFAULT now() NOT NULL,
  line_count smallint NOT NULL,
  reverses text COLLATE "C",
  plan_id text COLLATE "C",
  bill_no integer,
  test_clock_id text COLLATE "C",
  occurred_on date NOT NULL,
  corrects text COLLATE "C",
  reason text,
  CONSTRAINT ledger_entry_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT ledger_entry_posted_once UNIQUE (idempotency_key, account_id, livemode),
  CONSTRAINT ledger_entry_has_lines CHECK (line_count >= 2),
  CONSTRAINT ledger_entry_corrects_later CHECK (effective_on >= occurred_on AND (corrects IS NULL OR effective_on > occurred_on)),
  CONSTRAINT ledger_entry_reason_bounded CHECK (octet_length(reason) <= 2000),
  CONSTRAINT ledger_entry_explained_for_a_reason CHECK (event <> 'explained' OR reason IS NOT NULL),
  CONSTRAINT ledger_entry_reverses_fkey FOREIGN KEY (account_id, livemode, reverses) REFERENCES ledger_entry
);
COMMENT ON TABLE ledger_entry IS 'Ledger entries: each is one business fact. A correction is a new entry that names the entry it reverses or corrects.';
COMMENT ON COLUMN ledger_entry.idempotency_key IS 'The rule and the subject of the entry, such as owed:sub_…:3. Unique forever, so that no fact is booked twice.';
COMMENT ON COLUMN ledger_entry.effective_on IS 'The day on which it is booked: occurred_on, or the first open day if that month was already closed.';
COMMENT ON COLUMN ledger_entry.plan_id IS 'The plan that is sold or that earns the revenue; null: none.';
COMMENT ON COLUMN ledger_entry.bill_no IS 'The number of the subscription''s bill; null: none.';
COMMENT ON COLUMN ledger_entry.test_clock_id IS 'The test clock of the customer. The books of a clock are deleted with it.';
COMMENT ON COLUMN ledger_entry.occurred_on IS 'The day on which the fact happened, in the customer''s clock.';
COMMENT ON COLUMN ledger_entry.corrects IS 'The entry that this one corrects, if the month of occurred_on was already closed: the newest closed entry about the same bill, charge or plan.';
COMMENT ON COLUMN ledger_entry.reason IS 'Why a person booked it by hand; null: the service booked it.';
CREATE INDEX ledger_entry_by_charge ON ledger_entry (charge_id) WHERE charge_id IS NOT NULL;
-- Without this index, deleting an entry reads all entries of the account to find one that reverses it.
CREATE INDEX ledger_entry_reverses ON ledger_entry (reverses, account_id, livemode) WHERE reverses IS NOT NULL;
CREATE INDEX ledger_entry_by_bill ON ledger_entry (subscription_id, bill_no, account_id, livemode) WHERE subscription_id IS NOT NULL;
CREATE INDEX ledger_entry_recognised ON ledger_entry (plan_id, account_id, livemode, effective_on, id) WHERE event = 'recognised';
CREATE INDEX ledger_entry_test_clock ON ledger_entry (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
ALTER TABLE ledger_entry ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON ledger_entry TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON ledger_entry TO billing_request;

CREATE TABLE ledger_line (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  entry_id text COLLATE "C" NOT NULL,
  line_no smallint NOT NULL,
  ledger_account text NOT NULL,
  detail text,
  currency text NOT NULL,
  amount_kobo bigint NOT NULL,
  effective_on date NOT NULL,
  CONSTRAINT ledger_line_pkey PRIMARY KEY (account_id, livemode, entry_id, line_no),
  CONSTRAINT ledger_line_amount_not_zero CHECK (amount_kobo <> 0),
  CONSTRAINT ledger_line_currency_ngn CHECK (currency = 'NGN')
);
COMMENT ON TABLE ledger_line IS 'Lines of entries: debits are positive, credits negative. The lines of an entry sum to zero. One statement inserts all lines of an entry, and they never change.';
COMMENT ON COLUMN ledger_line.detail IS 'The rail of a clearing line, the customer of a receivable line; in the service''s own books the merchant.';
COMMENT ON COLUMN ledger_line.effective_on IS 'The entry''s effective_on, copied for sums by day.';
-- Sums of one ledger account by day read only this index.
CREATE INDEX ledger_line_by_day ON ledger_line (ledger_account, account_id, effective_on, livemode) INCLUDE (amount_kobo);
ALTER TABLE ledger_line ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON ledger_line TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON ledger_line TO billing_request;

CREATE TABLE ledger_total (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  month date NOT NULL,
  ledger_account text NOT NULL,
  debit_kobo bigint NOT NULL,
  credit_kobo bigint NOT NULL,
  CONSTRAINT ledger_total_pkey PRIMARY KEY (account_id, livemode, ledger_account, month),
  CONSTRAINT ledger_total_live CHECK (livemode),
  CONSTRAINT ledger_total_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT ledger_total_ledger_account_fkey FOREIGN KEY (ledger_account) REFERENCES ledger_account(code)
);
COMMENT ON TABLE ledger_total IS 'Stored sums of closed months by ledger account, for live only, so that balances do not sum old years again. Opening a month deletes its sums (src/ledger/closing.ts). Sandboxes have none: they are deleted with their books.';
ALTER TABLE ledger_total ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON ledger_total TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));

CREATE TABLE ledger_totalled (
  month date NOT NULL,
  CONSTRAINT ledger_totalled_pkey PRIMARY KEY (month)
);
COMMENT ON TABLE ledger_totalled IS 'The closed months whose sums are in ledger_total: all months up to the newest row.';

-- A month stays closed until it is opened again with a reason.
CREATE TABLE ledger_closing (
  no bigint GENERATED ALWAYS AS IDENTITY,
  action text NOT NULL,
  month date NOT NULL,
  through date NOT NULL,
  reason text,
  at timestamptz DEFAULT now() NOT NULL,
  CONSTRAINT ledger_closing_pkey PRIMARY KEY (no),
  CONSTRAINT ledger_closing_action_known CHECK (action IN ('close', 'reopen')),
  CONSTRAINT ledger_closing_month_whole CHECK (extract(day FROM month) = 1),
  CONSTRAINT ledger_closing_reason_bounded CHECK (octet_length(reason) <= 2000),
  CONSTRAINT ledger_closing_reopened_for_a_reason CHECK (action = 'close' OR reason IS NOT NULL)
);
COMMENT ON TABLE ledger_closing IS 'Closings and reopenings of months. The newest row shows which months are closed.';
COMMENT ON COLUMN ledger_closing.through IS 'The last closed day after this action. All earlier days are closed too.';
COMMENT ON COLUMN ledger_closing.reason IS 'Why the month was opened again, or closed despite breaches or exceptions; null: there were none when it was closed.';
GRANT SELECT ON ledger_closing TO billing_request;

-- An account closes its own months too. A closing holds for statements that begin at or after holds_from, which is a moment after its commit:
-- all functions and triggers of one statement see the same closings, without a lock.
CREATE TABLE account_closing (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  no integer NOT NULL,
  action text NOT NULL,
  month date NOT NULL,
  through date NOT NULL,
  reason text,
  at timestamptz NOT NULL,
  holds_from timestamptz NOT NULL,
  CONSTRAINT account_closing_pkey PRIMARY KEY (account_id, livemode, no),
  CONSTRAINT account_closing_action_known CHECK (action IN ('close', 'reopen')),
  CONSTRAINT account_closing_month_whole CHECK (extract(day FROM month) = 1),
  CONSTRAINT account_closing_reason_bounded CHECK (octet_length(reason) <= 2000),
  CONSTRAINT account_closing_reopened_for_a_reason CHECK (action = 'close' OR reason IS NOT NULL),
  CONSTRAINT account_closing_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE account_closing IS 'Closings and reopenings of months by one account, in one environment. The newest row shows which of its months it has closed. Months that ledger_closing closes are closed for all.';
COMMENT ON COLUMN account_closing.no IS 'From 1, in the order of the closings.';
COMMENT ON COLUMN account_closing.through IS 'The last closed day after this action. All earlier days are closed too.';
COMMENT ON COLUMN account_closing.reason IS 'Why the month was opened again, or closed despite open items; null: there were none.';
ALTER TABLE account_closing ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON account_closing TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON account_closing TO billing_request;

CREATE TABLE day_total (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  measure text NOT NULL,
  event text NOT NULL,
  day date NOT NULL,
  debit_kobo bigint NOT NULL,
  credit_kobo bigint NOT NULL,
  count bigint NOT NULL,
  CONSTRAINT day_total_pkey PRIMARY KEY (account_id, livemode, measure, event, day)
) WITH (fillfactor=80);
COMMENT ON TABLE day_total IS 'The books by day: the debits, credits and lines of each ledger account, by the rule of the entry; and the movements of recurring revenue. Without those that are in day_total_new.';
COMMENT ON COLUMN day_total.measure IS 'The ledger account; `mrr`: monthly recurring revenue.';
COMMENT ON COLUMN day_total.event IS 'The rule of the entry; the kind of the movement.';
COMMENT ON COLUMN day_total.count IS 'The number of lines or movements.';
ALTER TABLE day_total ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON day_total TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT ON day_total TO billing_request;

-- A table of its own: its rows live for seconds, and what deleted rows leave in an index would slow down every sum over the days.
CREATE TABLE day_total_new (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  xact bigint NOT NULL,
  measure text NOT NULL,
  event text NOT NULL,
  day date NOT NULL,
  debit_kobo bigint NOT NULL,
  credit_kobo bigint NOT NULL,
  count bigint NOT NULL,
  CONSTRAINT day_total_new_pkey PRIMARY KEY (account_id, livemode, xact, measure, event, day)
) WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000);
COMMENT ON TABLE day_total_new IS 'New totals of days. The statement that writes lines writes their totals here. A worker merges them into day_total (src/ledger/dayTotals.ts).';
COMMENT ON COLUMN day_total_new.xact IS 'The transaction that wrote it, so that no transaction waits for another.';
ALTER TABLE day_total_new ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON day_total_new TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE ON day_total_new TO billing_request;

CREATE VIEW day_total_all WITH (security_invoker = true) AS
SELECT account_id, livemode, measure, event, day, debit_kobo, credit_kobo, count FROM day_total
UNION ALL SELECT account_id, livemode, measure, event, day, debit_kobo, credit_kobo, count FROM day_total_new;
COMMENT ON VIEW day_total_all IS 'The totals of days, merged and new. The total of a day is the sum of its rows.';
GRANT SELECT ON day_total_all TO billing_request;

-- By the end of the n-th day of a schedule floor(amount * n / days) of its revenue is recognised. The last day clears the rest.
CREATE TABLE revenue_schedule (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  subscription_id text COLLATE "C" NOT NULL,
  bill_no integer NOT NULL,
  part smallint NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  plan_id text COLLATE "C" NOT NULL,
  test_clock_id text COLLATE "C",
  price_kobo bigint NOT NULL,
  amount_kobo bigint NOT NULL,
  carried_kobo bigint NOT NULL,
  vat_kobo bigint NOT NULL,
  start_on date NOT NULL,
  end_on date,
  from_on date NOT NULL,
  until_on date NOT NULL,
  adjusted_kobo bigint DEFAULT 0 NOT NULL,
  moved_kobo bigint DEFAULT 0 NOT NULL,
  state text DEFAULT 'running'::text NOT NULL,
  CONSTRAINT revenue_schedule_pkey PRIMARY KEY (account_id, livemode, subscription_id, bill_no, part),
  CONSTRAINT revenue_schedule_amounts_positive CHECK (price_kobo > 0 AND amount_kobo > 0 AND carried_kobo BETWEEN 0 AND amount_kobo AND vat_kobo >= 0 AND moved_kobo >= 0),
  CONSTRAINT revenue_schedule_days_forward CHECK (end_on > start_on AND from_on >= start_on AND until_on >= from_on),
  CONSTRAINT revenue_schedule_state_known CHECK (state = ANY ('{running,stopped,ended}')),
  CONSTRAINT revenue_schedule_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription ON DELETE CASCADE
);
COMMENT ON TABLE revenue_schedule IS 'Revenue schedules of subscriptions'' bills (docs/ledger.md). The row determines the revenue of each day.';
COMMENT ON COLUMN revenue_schedule.part IS 'From 1. A late payment moves the rest to a new period: a new part (decision D7).';
COMMENT ON COLUMN revenue_schedule.price_kobo IS 'The price of the period, including VAT and credits. If a share of the price is credited, the same share of amount_kobo moves.';
COMMENT ON COLUMN revenue_schedule.amount_kobo IS 'The total revenue of the schedule, without VAT.';
COMMENT ON COLUMN revenue_schedule.carried_kobo IS 'The part of amount_kobo that was credited from an earlier bill, which is already paid.';
COMMENT ON COLUMN revenue_schedule.vat_kobo IS 'The VAT that was booked with amount_kobo and is not part of it.';
COMMENT ON COLUMN revenue_schedule.start_on IS 'The first served day.';
COMMENT ON COLUMN revenue_schedule.end_on IS 'The day after the last served day; null: served by deliveries, not by days.';
COMMENT ON COLUMN revenue_schedule.from_on IS 'The first day on which revenue is recognised, including the revenue of earlier days. If service started before the posting, it is the day of the posting.';
COMMENT ON COLUMN revenue_schedule.until_on IS 'From this day on, no revenue is recognised by day: service has ended, or is not served by days.';
COMMENT ON COLUMN revenue_schedule.adjusted_kobo IS 'The revenue recognised when service ended early, in addition to that of its days.';
COMMENT ON COLUMN revenue_schedule.moved_kobo IS 'The amount that this schedule does not recognise: credited to the next bill, moved to the next part, or reversed.';
COMMENT ON COLUMN revenue_schedule.state IS 'running: recognised day by day; stopped: service is interrupted and the rest waits; ended: nothing is left.';
CREATE INDEX revenue_schedule_by_day ON revenue_schedule ((coalesce(test_clock_id, 'wall')), account_id, livemode, until_on, plan_id);
ALTER TABLE revenue_schedule ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON revenue_schedule TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE ON revenue_schedule TO billing_request;

CREATE TABLE revenue_book (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  closed_on date DEFAULT '1969-12-31'::date NOT NULL,
  posted_on date DEFAULT '1969-12-31'::date NOT NULL,
  CONSTRAINT revenue_book_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT revenue_book_posted_when_closed CHECK (posted_on <= closed_on),
  CONSTRAINT revenue_book_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE revenue_book IS 'The progress of revenue recognition, for the wall clock and each test clock of an account and environment.';
COMMENT ON COLUMN revenue_book.id IS 'The ID of the test clock; `wall`: the wall clock.';
COMMENT ON COLUMN revenue_book.closed_on IS 'The last closed day. The revenue of closed days does not change: late revenue is recognised on later days.';
COMMENT ON COLUMN revenue_book.posted_on IS 'The last booked day.';
CREATE INDEX revenue_book_due ON revenue_book (posted_on, account_id, livemode) WHERE id = 'wall';
ALTER TABLE revenue_book ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON revenue_book TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON revenue_book TO billing_request;

CREATE TABLE mrr_movement (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  subscription_id text COLLATE "C" NOT NULL,
  version integer NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  plan_id text COLLATE "C" NOT NULL,
  moved_on date NOT NULL,
  kind text NOT NULL,
  change_kobo bigint NOT NULL,
  mrr_kobo bigint NOT NULL,
  CONSTRAINT mrr_movement_pkey PRIMARY KEY (account_id, livemode, subscription_id, version),
  CONSTRAINT mrr_movement_changes CHECK (change_kobo <> 0 AND mrr_kobo >= 0),
  CONSTRAINT mrr_movement_kind_known CHECK (kind = ANY ('{new,expansion,contraction,churn,reactivation}')),
  CONSTRAINT mrr_movement_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT mrr_movement_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription ON DELETE CASCADE
);
COMMENT ON TABLE mrr_movement IS 'Changes of subscriptions'' monthly recurring revenue, which is the monthly price of subscriptions that are in service and billed by the calendar.';
COMMENT ON COLUMN mrr_movement.version IS 'The subscription''s version after the transition that changed it.';
COMMENT ON COLUMN mrr_movement.mrr_kobo IS 'The monthly recurring revenue after the change.';
ALTER TABLE mrr_movement ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON mrr_movement TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON mrr_movement TO billing_request;

CREATE FUNCTION ledger_open_from() RETURNS date LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(7301010, 0);
  RETURN coalesce((SELECT through + 1 FROM ledger_closing ORDER BY no DESC LIMIT 1), '-infinity');
END $$;
COMMENT ON FUNCTION ledger_open_from() IS 'Returns the first day on which entries may be dated, as far as the closings of all accounts together say. No such month can be closed before the running transaction ends.';

CREATE FUNCTION ledger_open_from(account text, live boolean) RETURNS date LANGUAGE plpgsql AS $$
BEGIN
  RETURN greatest(ledger_open_from(), (
    SELECT c.through + 1 FROM account_closing c
    WHERE c.account_id = account AND c.livemode = live AND c.holds_from <= statement_timestamp() ORDER BY c.no DESC LIMIT 1
  ));
END $$;
COMMENT ON FUNCTION ledger_open_from(text, boolean) IS 'Returns the first day on which entries of an account may be dated. It is the same during a whole statement.';

CREATE FUNCTION open_revenue_day(account text, live boolean, clock text, wanted date) RETURNS date LANGUAGE plpgsql AS $$
DECLARE
  book text := coalesce(clock, 'wall');
  closed date;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(7301011, hashtext(account || live || book));
  SELECT b.closed_on INTO closed FROM revenue_book b WHERE b.account_id = account AND b.livemode = live AND b.id = book;
  IF NOT FOUND THEN
    INSERT INTO revenue_book (account_id, livemode, id) VALUES (account, live, book) ON CONFLICT DO NOTHING;
    SELECT b.closed_on INTO closed FROM revenue_book b WHERE b.account_id = account AND b.livemode = live AND b.id = book;
  END IF;
  RETURN greatest(wanted, closed + 1);
END $$;
COMMENT ON FUNCTION open_revenue_day IS 'Returns the first open day of a book, from the wanted day on. It stays open until the running transaction ends.';

CREATE FUNCTION close_revenue_days(account text, live boolean, book text, through date) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- Never waits: transactions behind it in the lock queue would wait too.
  IF NOT pg_try_advisory_xact_lock(7301011, hashtext(account || live || book)) THEN RETURN false; END IF;
  UPDATE revenue_book b SET closed_on = through
  WHERE b.account_id = account AND b.livemode = live AND b.id = book AND b.closed_on < through;
  RETURN true;
END $$;
COMMENT ON FUNCTION close_revenue_days IS 'Closes the days of a book. Returns false if another transaction is writing to it: try again.';

CREATE FUNCTION check_new_ledger_lines() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE bad record;
BEGIN
  SELECT l.entry_id, e.id IS NULL AS orphan,
    l.lines <> coalesce(e.line_count, 0) OR l.first <> 1 OR l.last <> coalesce(e.line_count, 0) AS partial, l.total <> 0 OR l.currencies <> 1 AS unbalanced INTO bad
  FROM (
    SELECT account_id, livemode, entry_id, count(*) AS lines, min(line_no) AS first, max(line_no) AS last,
      sum(amount_kobo) AS total, count(DISTINCT currency) AS currencies, min(effective_on) AS earliest, max(effective_on) AS latest
    FROM new_lines GROUP BY account_id, livemode, entry_id
  ) l
  LEFT JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
  WHERE e.id IS NULL OR l.lines <> e.line_count OR l.first <> 1 OR l.last <> e.line_count OR l.total <> 0 OR l.currencies <> 1
    OR l.earliest <> e.effective_on OR l.latest <> e.effective_on
  LIMIT 1;
  IF bad.orphan THEN
    RAISE EXCEPTION 'ledger line of %: there is no such entry', bad.entry_id USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'ledger_line_has_entry';
  ELSIF bad.partial THEN
    RAISE EXCEPTION 'ledger entry %: its lines must arrive with it, all in one statement', bad.entry_id USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_line_arrives_with_entry';
  ELSIF bad.unbalanced THEN
    RAISE EXCEPTION 'ledger entry % does not balance', bad.entry_id USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_entry_balances';
  ELSIF bad.entry_id IS NOT NULL THEN
    RAISE EXCEPTION 'ledger entry %: its lines must be dated as it is', bad.entry_id USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_line_dated_as_entry';
  END IF;
  SELECT l.ledger_account INTO bad
  FROM (SELECT DISTINCT ledger_account FROM new_lines) l LEFT JOIN ledger_account a ON a.code = l.ledger_account WHERE a.code IS NULL LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'there is no ledger account %', bad.ledger_account USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'ledger_line_has_account';
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION check_new_ledger_entries() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  bad text;
  open_from date;
BEGIN
  SELECT b.id, b.open_from INTO bad, open_from FROM (
    SELECT min(e.id) AS id, min(e.effective_on) AS first_on, ledger_open_from(e.account_id, e.livemode) AS open_from FROM new_entries e GROUP BY e.account_id, e.livemode
  ) b WHERE b.first_on < b.open_from LIMIT 1;
  IF bad IS NOT NULL THEN
    RAISE EXCEPTION 'ledger entry %: the books are closed before %; date it then or later, and say in occurred_on when it happened', bad, open_from
      USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_month_open';
  END IF;
  -- Uses count(*), a look-up for each account and entry. NOT EXISTS could become a join over the whole table.
  SELECT e.account_id INTO bad FROM (SELECT DISTINCT account_id FROM new_entries) e WHERE (SELECT count(*) FROM account a WHERE a.id = e.account_id) = 0 LIMIT 1;
  IF bad IS NOT NULL THEN
    RAISE EXCEPTION 'ledger entry of %: there is no such account', bad USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'ledger_entry_has_account';
  END IF;
  SELECT e.id INTO bad FROM new_entries e
  WHERE (SELECT count(*) FROM ledger_line l WHERE (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)) = 0
  LIMIT 1;
  IF bad IS NOT NULL THEN
    RAISE EXCEPTION 'ledger entry %: its lines must arrive with it, all in one statement', bad USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_line_arrives_with_entry';
  END IF;
  RETURN NULL;
END $$;

-- The lines of an entry are deleted before the entry.
CREATE FUNCTION total_lines() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE sign integer := CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END;
BEGIN
  INSERT INTO day_total_new (account_id, livemode, measure, event, day, xact, debit_kobo, credit_kobo, count)
  SELECT l.account_id, l.livemode, l.ledger_account, e.event, l.effective_on, pg_current_xact_id()::text::bigint,
    sign * coalesce(sum(l.amount_kobo) FILTER (WHERE l.amount_kobo > 0), 0), sign * coalesce(-sum(l.amount_kobo) FILTER (WHERE l.amount_kobo < 0), 0), sign * count(*)
  FROM moved l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
  GROUP BY l.account_id, l.livemode, l.ledger_account, e.event, l.effective_on
  ON CONFLICT ON CONSTRAINT day_total_new_pkey DO UPDATE
  SET debit_kobo = day_total_new.debit_kobo + excluded.debit_kobo, credit_kobo = day_total_new.credit_kobo + excluded.credit_kobo, count = day_total_new.count + excluded.count;
  RETURN NULL;
END $$;

CREATE FUNCTION total_movements() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE sign integer := CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END;
BEGIN
  INSERT INTO day_total_new (account_id, livemode, measure, event, day, xact, debit_kobo, credit_kobo, count)
  SELECT v.account_id, v.livemode, 'mrr', v.kind, v.moved_on, pg_current_xact_id()::text::bigint,
    sign * coalesce(sum(v.change_kobo) FILTER (WHERE v.change_kobo > 0), 0), sign * coalesce(-sum(v.change_kobo) FILTER (WHERE v.change_kobo < 0), 0), sign * count(*)
  FROM moved v GROUP BY v.account_id, v.livemode, v.kind, v.moved_on
  ON CONFLICT ON CONSTRAINT day_total_new_pkey DO UPDATE
  SET debit_kobo = day_total_new.debit_kobo + excluded.debit_kobo, credit_kobo = day_total_new.credit_kobo + excluded.credit_kobo, count = day_total_new.count + excluded.count;
  RETURN NULL;
END $$;
CREATE TRIGGER mrr_movement_totalled AFTER INSERT ON mrr_movement REFERENCING NEW TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION total_movements();
CREATE TRIGGER mrr_movement_removed AFTER DELETE ON mrr_movement REFERENCING OLD TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION total_movements();

CREATE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND TG_TABLE_NAME <> 'ledger_account' AND coalesce(current_setting('billing.sandbox_reset', true), '') <> '' THEN RETURN NULL; END IF;
  RAISE EXCEPTION 'the ledger is append-only: % on % is refused; post a reversing entry', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_append_only';
END $$;

CREATE FUNCTION refuse_ledger_loss() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM gone WHERE livemode OR account_id IS DISTINCT FROM current_setting('billing.sandbox_reset', true)) THEN
    RAISE EXCEPTION 'the ledger is append-only: only the reset of its own sandbox empties it'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_append_only';
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER ledger_account_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_account FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();
CREATE TRIGGER ledger_closing_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_closing FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();
CREATE TRIGGER account_closing_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON account_closing FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();
CREATE TRIGGER ledger_entry_whole AFTER INSERT ON ledger_entry REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT EXECUTE FUNCTION check_new_ledger_entries();
CREATE TRIGGER ledger_entry_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();
CREATE TRIGGER ledger_entry_kept AFTER DELETE ON ledger_entry REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_loss();
CREATE TRIGGER ledger_line_whole AFTER INSERT ON ledger_line REFERENCING NEW TABLE AS new_lines FOR EACH STATEMENT EXECUTE FUNCTION check_new_ledger_lines();
CREATE TRIGGER ledger_line_totalled AFTER INSERT ON ledger_line REFERENCING NEW TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION total_lines();
CREATE TRIGGER ledger_line_removed AFTER DELETE ON ledger_line REFERENCING OLD TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION total_lines();
CREATE TRIGGER ledger_line_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_line FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();
CREATE TRIGGER ledger_line_kept AFTER DELETE ON ledger_line REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_loss();

INSERT INTO ledger_account (code, name, kind) VALUES
  ('bad_debt', 'Bad debt: services given and never paid', 'expense'),
  ('bank', 'Bank', 'asset'),
  ('buyer_deposits', 'Buyer deposits: instalments paid for goods to come', 'liability'),
  ('cancellation_fees', 'Revenue: fees kept of cancelled instalment plans', 'revenue'),
  ('clearing', 'Clearing: money at the payment rails', 'asset'),
  ('deferred_revenue', 'Deferred revenue: paid or owed for periods', 'liability'),
  ('fee_revenue', 'Revenue: fees of merchants', 'revenue'),
  ('goods_revenue', 'Revenue: goods delivered', 'revenue'),
  ('one_off_revenue', 'Revenue: one-off charges', 'revenue'),
  ('output_vat', 'Output VAT: VAT on sales, owed to the tax office', 'liability'),
  ('rail_fees', 'Rail fees: what payment rails keep', 'expense'),
  ('receivable', 'Receivable: what customers owe', 'asset'),
  ('refunds_payable', 'Refunds payable', 'liability'),
  ('subscription_revenue', 'Revenue: periods served', 'revenue'),
  ('suspense', 'Suspense: what a rail paid out and our books do not explain', 'liability'),
  ('usage_revenue', 'Revenue: reported units', 'revenue'),
  ('waived', 'Waived: totals too small to charge', 'expense');
