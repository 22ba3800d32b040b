-- Revenue is recognised day by day as it is served; entries know their plan, bill and clock, and the day that they belong to.

INSERT INTO ledger_account (code, name, kind) VALUES
  ('subscription_revenue', 'Revenue: periods served', 'revenue'),
  ('output_vat', 'Output VAT: VAT on sales, owed to the tax office', 'liability'),
  ('rail_fees', 'Rail fees: what payment rails keep', 'expense'),
  ('suspense', 'Suspense: what a rail paid out and our books do not explain', 'liability'),
  ('buyer_deposits', 'Buyer deposits: instalments paid for goods to come', 'liability'),
  ('goods_revenue', 'Revenue: goods delivered', 'revenue'),
  ('cancellation_fees', 'Revenue: fees kept of cancelled instalment plans', 'revenue');

ALTER TABLE ledger_entry
  ADD COLUMN plan_id text COLLATE "C",
  ADD COLUMN bill_no integer,
  ADD COLUMN test_clock_id text COLLATE "C",
  ADD COLUMN occurred_on date,
  ADD COLUMN corrects text COLLATE "C";
ALTER TABLE ledger_line ADD COLUMN effective_on date;

-- What was booked before. The books of a clock go with it from now on: so do those of clocks that are gone already.
ALTER TABLE ledger_entry DISABLE TRIGGER USER;
ALTER TABLE ledger_line DISABLE TRIGGER USER;
CREATE TEMPORARY TABLE of_deleted_clocks ON COMMIT DROP AS
  SELECT e.account_id, e.livemode, e.id FROM ledger_entry e
  WHERE NOT e.livemode AND e.customer_id IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM customer c WHERE (c.account_id, c.livemode, c.id) = (e.account_id, e.livemode, e.customer_id));
DELETE FROM ledger_line l USING of_deleted_clocks g WHERE (l.account_id, l.livemode, l.entry_id) = (g.account_id, g.livemode, g.id);
DELETE FROM ledger_entry e USING of_deleted_clocks g WHERE (e.account_id, e.livemode, e.id) = (g.account_id, g.livemode, g.id);
UPDATE ledger_entry e SET occurred_on = e.effective_on,
  plan_id = (SELECT s.plan_id FROM subscription s WHERE (s.account_id, s.livemode, s.id) = (e.account_id, e.livemode, e.subscription_id)),
  test_clock_id = (SELECT c.test_clock_id FROM customer c WHERE (c.account_id, c.livemode, c.id) = (e.account_id, e.livemode, e.customer_id)),
  bill_no = CASE WHEN e.event IN ('paid', 'owed', 'overdue_paid', 'written_off', 'waived') AND e.subscription_id IS NOT NULL
    THEN split_part(e.idempotency_key, ':', 3)::integer END;
UPDATE ledger_line l SET effective_on = e.effective_on FROM ledger_entry e
  WHERE (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id);
ALTER TABLE ledger_entry ENABLE TRIGGER USER;
ALTER TABLE ledger_line ENABLE TRIGGER USER;

ALTER TABLE ledger_entry ALTER COLUMN occurred_on SET NOT NULL,
  ADD CONSTRAINT ledger_entry_corrects_later CHECK (effective_on >= occurred_on AND (corrects IS NULL OR effective_on > occurred_on));
ALTER TABLE ledger_line ALTER COLUMN effective_on SET NOT NULL;
COMMENT ON COLUMN ledger_entry.plan_id IS 'The plan that it sells, or whose revenue it is; null: none.';
COMMENT ON COLUMN ledger_entry.bill_no IS 'The subscription''s bill that it is about; null: none.';
COMMENT ON COLUMN ledger_entry.test_clock_id IS 'The test clock that it belongs to: the books of a clock go with it.';
COMMENT ON COLUMN ledger_entry.occurred_on IS 'The day on which it happened, in the customer''s clock.';
COMMENT ON COLUMN ledger_entry.effective_on IS 'The day in whose books it stands: the day on which it happened, or the first open day where that month was closed already.';
COMMENT ON COLUMN ledger_entry.corrects IS 'Of an entry that happened in a month which was closed: the newest one in closed months about the same bill or charge, which it corrects.';
COMMENT ON COLUMN ledger_line.effective_on IS 'The entry''s, for those who sum lines by day.';

-- Months are closed for good, or until they are opened again with a reason.
CREATE TABLE ledger_closing (
  no       bigint GENERATED ALWAYS AS IDENTITY,
  action   text NOT NULL,
  month    date NOT NULL,
  through  date NOT NULL,
  reason   text,
  at       timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT ledger_closing_pkey PRIMARY KEY (no),
  CONSTRAINT ledger_closing_action_known CHECK (action IN ('close', 'reopen')),
  CONSTRAINT ledger_closing_month_whole CHECK (extract(day FROM month) = 1),
  CONSTRAINT ledger_closing_reopened_for_a_reason CHECK ((action = 'reopen') = (reason IS NOT NULL)),
  CONSTRAINT ledger_closing_reason_bounded CHECK (octet_length(reason) <= 2000)
);
COMMENT ON TABLE ledger_closing IS 'Closings of months, and their reopenings: the newest row says which months are closed.';
COMMENT ON COLUMN ledger_closing.through IS 'The last day that is closed from here on, as all before it are.';
GRANT SELECT ON ledger_closing TO billing_request;
CREATE TRIGGER ledger_closing_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_closing FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change();

-- Whoever posts holds a shared lock to the end of the transaction, whoever closes a month holds it alone: so nothing is
-- posted into a month that is being closed.
CREATE FUNCTION ledger_open_from() RETURNS date LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(7301010, 0);
  RETURN coalesce((SELECT through + 1 FROM ledger_closing ORDER BY no DESC LIMIT 1), '-infinity');
END $$;
COMMENT ON FUNCTION ledger_open_from IS 'The first day that entries may be dated; no month is closed until the running transaction ends.';

CREATE OR REPLACE FUNCTION check_new_ledger_lines() RETURNS trigger LANGUAGE plpgsql AS $$
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
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION check_new_ledger_entries() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  bad text;
  open_from date := ledger_open_from();
BEGIN
  SELECT e.id INTO bad FROM new_entries e WHERE e.effective_on < open_from LIMIT 1;
  IF bad IS NOT NULL THEN
    RAISE EXCEPTION 'ledger entry %: the books are closed before %; date it then or later, and say in occurred_on when it happened', bad, open_from
      USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_month_open';
  END IF;
  SELECT e.id INTO bad FROM new_entries e
  -- A count, not NOT EXISTS: that could become a join over the whole table, this is a look-up for each entry.
  WHERE (SELECT count(*) FROM ledger_line l WHERE (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)) = 0
  LIMIT 1;
  IF bad IS NOT NULL THEN
    RAISE EXCEPTION 'ledger entry %: its lines must arrive with it, all in one statement', bad USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_line_arrives_with_entry';
  END IF;
  RETURN NULL;
END $$;

CREATE INDEX ledger_entry_by_bill ON ledger_entry (subscription_id, bill_no, account_id, livemode) WHERE subscription_id IS NOT NULL;
CREATE INDEX ledger_entry_recognised ON ledger_entry (plan_id, account_id, livemode, effective_on, id) WHERE event = 'recognised';
CREATE INDEX ledger_entry_test_clock ON ledger_entry (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
-- Sums of one ledger account by day read this and not the table.
CREATE INDEX ledger_line_by_day ON ledger_line (ledger_account, account_id, effective_on, livemode) INCLUDE (amount_kobo);
DROP INDEX ledger_line_by_account;

-- How the revenue of one bill is recognised. By the end of the n-th of its days floor(amount * n / days) of it is; the last
-- day clears.
CREATE TABLE revenue_schedule (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  subscription_id  text COLLATE "C" NOT NULL,
  bill_no          integer NOT NULL,
  part             smallint NOT NULL,
  customer_id      text COLLATE "C" NOT NULL,
  plan_id          text COLLATE "C" NOT NULL,
  test_clock_id    text COLLATE "C",
  price_kobo       bigint NOT NULL,
  amount_kobo      bigint NOT NULL,
  carried_kobo     bigint NOT NULL,
  vat_kobo         bigint NOT NULL,
  start_on         date NOT NULL,
  end_on           date,
  from_on          date NOT NULL,
  until_on         date NOT NULL,
  adjusted_kobo    bigint NOT NULL DEFAULT 0,
  moved_kobo       bigint NOT NULL DEFAULT 0,
  state            text NOT NULL DEFAULT 'running',
  CONSTRAINT revenue_schedule_pkey PRIMARY KEY (account_id, livemode, subscription_id, bill_no, part),
  CONSTRAINT revenue_schedule_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription ON DELETE CASCADE,
  CONSTRAINT revenue_schedule_state_known CHECK (state IN ('running', 'stopped', 'ended')),
  CONSTRAINT revenue_schedule_amounts_positive CHECK (price_kobo > 0 AND amount_kobo > 0 AND carried_kobo BETWEEN 0 AND amount_kobo AND vat_kobo >= 0 AND moved_kobo >= 0),
  CONSTRAINT revenue_schedule_days_forward CHECK (end_on > start_on AND from_on >= start_on AND until_on >= from_on)
);
CREATE INDEX revenue_schedule_by_day ON revenue_schedule ((coalesce(test_clock_id, 'wall')), account_id, livemode, until_on);
CREATE INDEX revenue_schedule_subscription ON revenue_schedule (subscription_id, bill_no, part);
COMMENT ON TABLE revenue_schedule IS 'When the revenue of a subscription''s bill is recognised (docs/ledger.md): every day''s part follows from the row.';
COMMENT ON COLUMN revenue_schedule.part IS '1; 2 and so on where a late payment moved what was left to a period of its own (decision D7).';
COMMENT ON COLUMN revenue_schedule.price_kobo IS 'What the period costs, VAT and credits included: a credit of so much of it is that part of the amount.';
COMMENT ON COLUMN revenue_schedule.amount_kobo IS 'What is recognised by it in the end, without VAT.';
COMMENT ON COLUMN revenue_schedule.carried_kobo IS 'What of this was credited from an earlier bill: it is paid already.';
COMMENT ON COLUMN revenue_schedule.vat_kobo IS 'The VAT that was booked with the rest.';
COMMENT ON COLUMN revenue_schedule.start_on IS 'The first day that is served.';
COMMENT ON COLUMN revenue_schedule.end_on IS 'The day after the last that is served; null: it is served by deliveries, not by days.';
COMMENT ON COLUMN revenue_schedule.from_on IS 'The first day that recognises anything, all that was served before included: the day of the posting, if that came later than the service.';
COMMENT ON COLUMN revenue_schedule.until_on IS 'From this day on, no day recognises anything: service has ended, or never goes by days.';
COMMENT ON COLUMN revenue_schedule.adjusted_kobo IS 'What was recognised when service ended early, beyond what its days had recognised by then.';
COMMENT ON COLUMN revenue_schedule.moved_kobo IS 'What was not recognised by it: credited to the next bill, moved to the next part, or reversed.';
COMMENT ON COLUMN revenue_schedule.state IS 'running: day by day; stopped: service is interrupted, what is left waits; ended: nothing is left.';

-- The part of an amount that is recognised by the end of a day.
CREATE FUNCTION recognised_kobo(amount bigint, start_on date, end_on date, by_day date) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT amount * least(greatest(by_day - start_on + 1, 0), end_on - start_on) / (end_on - start_on)
$$;
COMMENT ON FUNCTION recognised_kobo IS 'What recognisedKobo of src/ledger/schedule.ts computes: the cumulative floor, by the end of a day.';

CREATE TABLE revenue_book (
  account_id  text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode    boolean NOT NULL,
  id          text COLLATE "C" NOT NULL,
  closed_on   date NOT NULL DEFAULT '1969-12-31',
  posted_on   date NOT NULL DEFAULT '1969-12-31',
  CONSTRAINT revenue_book_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT revenue_book_posted_when_closed CHECK (posted_on <= closed_on)
);
CREATE INDEX revenue_book_due ON revenue_book (posted_on, account_id, livemode) WHERE id = 'wall';
COMMENT ON TABLE revenue_book IS 'How far recognition is, for the wall clock and each test clock of an account and environment.';
COMMENT ON COLUMN revenue_book.id IS 'The test clock; `wall`: those without one.';
COMMENT ON COLUMN revenue_book.closed_on IS 'What its days up to here recognise changes no more: what comes late is recognised on later ones.';
COMMENT ON COLUMN revenue_book.posted_on IS 'The last day that is in the books.';

-- Whoever begins or ends a schedule keeps its book's days open to the end of the transaction.
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
COMMENT ON FUNCTION open_revenue_day IS 'The first open day of a book from the wanted one on; it stays open until the running transaction ends.';

CREATE FUNCTION close_revenue_days(account text, live boolean, book text, through date) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- Never waits: those behind it would wait too.
  IF NOT pg_try_advisory_xact_lock(7301011, hashtext(account || live || book)) THEN RETURN false; END IF;
  UPDATE revenue_book b SET closed_on = through
  WHERE b.account_id = account AND b.livemode = live AND b.id = book AND b.closed_on < through;
  RETURN true;
END $$;
COMMENT ON FUNCTION close_revenue_days IS 'Closes the days of a book; false: somebody is writing to it, try again.';

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['revenue_schedule', 'revenue_book'] LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format(
      'CREATE POLICY own_rows ON %s TO billing_request USING (account_id = current_setting(''billing.account_id'') AND livemode = current_setting(''billing.livemode'')::boolean)', t);
  END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE ON revenue_schedule TO billing_request;
GRANT SELECT, INSERT ON revenue_book TO billing_request;

-- What was deferred before and is still to be recognised: over the periods that its charges show. The period of a bill that
-- nobody has paid is the subscription's; of a waived one, which is too small to charge, nobody knows it any more: the day has
-- it. One that was given up was reversed whole.
INSERT INTO revenue_schedule (account_id, livemode, subscription_id, bill_no, part, customer_id, plan_id, test_clock_id, price_kobo, amount_kobo, carried_kobo, vat_kobo,
  start_on, end_on, from_on, until_on, state)
SELECT p.account_id, p.livemode, p.subscription_id, p.bill_no, 1, p.customer_id, p.plan_id, p.test_clock_id, p.price_kobo, p.kobo, 0, 0,
  p.start_on, p.end_on, greatest(p.start_on, p.booked_on),
  CASE WHEN p.end_on IS NULL THEN greatest(p.start_on, p.booked_on) WHEN p.stopped_on IS NOT NULL THEN greatest(least(p.stopped_on, p.end_on), p.start_on, p.booked_on)
    ELSE greatest(p.end_on, greatest(p.start_on, p.booked_on) + 1) END,
  CASE WHEN p.stopped_on IS NULL THEN 'running' ELSE 'stopped' END
FROM (
  SELECT d.*,
    -- Of a pause with credit, or by escalation, what was not served by then waits.
    CASE WHEN d.bill_no = max(d.bill_no) OVER (PARTITION BY d.account_id, d.livemode, d.subscription_id) THEN (
      SELECT CASE WHEN s.pause IS NOT NULL AND p.pro_rate THEN (to_timestamp((s.pause->>'at')::bigint / 1000.0) AT TIME ZONE 'UTC')::date
        WHEN s.escalation->>'action' = 'pause' THEN (to_timestamp((s.escalation->>'triggeredAt')::bigint / 1000.0) AT TIME ZONE 'UTC')::date END
      FROM plan p WHERE (p.account_id, p.livemode, p.id) = (s.account_id, s.livemode, s.plan_id)
    ) END AS stopped_on,
    s.price_kobo * s.period_quantity AS price_kobo, d.begins_at::date AS start_on,
    CASE WHEN s.billing_cycle = 'per_delivery' AND s.status <> 'cancelled' AND d.begins_at >= s.period_start_at THEN NULL
      ELSE greatest(CASE WHEN s.billing_cycle = 'per_delivery' THEN d.ends_at::date + 1 ELSE least(d.ends_at, s.cancelled_at)::date END, d.begins_at::date + 1) END AS end_on
  FROM (
    SELECT e.account_id, e.livemode, e.subscription_id, e.bill_no, min(e.customer_id) AS customer_id, min(e.plan_id) AS plan_id, min(e.test_clock_id) AS test_clock_id,
      -sum(l.amount_kobo)::bigint AS kobo, min(e.occurred_on) AS booked_on,
      coalesce(min(c.period_start_at), min(to_timestamp((s.bill->>'periodStart')::bigint / 1000.0)), min(e.occurred_on)) AS begins_at,
      coalesce(min(c.period_end_at), min(to_timestamp((s.bill->>'periodEnd')::bigint / 1000.0)), min(e.occurred_on) + 1) AS ends_at
    FROM ledger_entry e
    JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id) AND l.ledger_account = 'deferred_revenue'
    JOIN subscription s ON (s.account_id, s.livemode, s.id) = (e.account_id, e.livemode, e.subscription_id)
    LEFT JOIN charge c ON (c.account_id, c.livemode, c.subscription_id, c.bill_no) = (e.account_id, e.livemode, e.subscription_id, e.bill_no)
      AND c.status = 'succeeded' AND NOT c.refund_due
    WHERE e.bill_no IS NOT NULL
    GROUP BY e.account_id, e.livemode, e.subscription_id, e.bill_no
    HAVING sum(l.amount_kobo) < 0
  ) d
  JOIN subscription s ON (s.account_id, s.livemode, s.id) = (d.account_id, d.livemode, d.subscription_id)
) p;
INSERT INTO revenue_book (account_id, livemode, id)
SELECT DISTINCT account_id, livemode, coalesce(test_clock_id, 'wall') FROM revenue_schedule;

ALTER TABLE invoice ADD COLUMN vat_kobo bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN invoice.vat_kobo IS 'The VAT that the total includes.';

-- Monthly recurring revenue moves with subscriptions.
CREATE TABLE mrr_movement (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  subscription_id  text COLLATE "C" NOT NULL,
  version          integer NOT NULL,
  customer_id      text COLLATE "C" NOT NULL,
  plan_id          text COLLATE "C" NOT NULL,
  moved_on         date NOT NULL,
  kind             text NOT NULL,
  change_kobo      bigint NOT NULL,
  mrr_kobo         bigint NOT NULL,
  CONSTRAINT mrr_movement_pkey PRIMARY KEY (account_id, livemode, subscription_id, version),
  CONSTRAINT mrr_movement_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription ON DELETE CASCADE,
  CONSTRAINT mrr_movement_kind_known CHECK (kind IN ('new', 'expansion', 'contraction', 'churn', 'reactivation')),
  CONSTRAINT mrr_movement_changes CHECK (change_kobo <> 0 AND mrr_kobo >= 0)
);
COMMENT ON TABLE mrr_movement IS 'How the monthly recurring revenue of subscriptions changed: what is in service and billed by the calendar, a month''s worth of it.';
COMMENT ON COLUMN mrr_movement.version IS 'The transition of the subscription that moved it.';
COMMENT ON COLUMN mrr_movement.mrr_kobo IS 'What it is from then on.';
ALTER TABLE mrr_movement ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON mrr_movement TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);
GRANT SELECT, INSERT ON mrr_movement TO billing_request;

-- A month's worth of a price.
CREATE FUNCTION monthly_kobo(cycle text, kobo bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT round(CASE cycle WHEN 'daily' THEN kobo * 365 / 12.0 WHEN 'weekly' THEN kobo * 365 / 84.0 WHEN 'monthly' THEN kobo WHEN 'quarterly' THEN kobo / 3.0 ELSE 0 END)::bigint
$$;
COMMENT ON FUNCTION monthly_kobo IS 'What mrrOf of src/billing/subscription/mrr.ts computes: a year''s price by twelve; what is billed by deliveries recurs by no calendar.';
INSERT INTO mrr_movement (account_id, livemode, subscription_id, version, customer_id, plan_id, moved_on, kind, change_kobo, mrr_kobo)
SELECT account_id, livemode, id, version, customer_id, plan_id, created_at::date, 'new',
  monthly_kobo(billing_cycle, price_kobo * period_quantity), monthly_kobo(billing_cycle, price_kobo * period_quantity)
FROM subscription
WHERE status IN ('active', 'past_due') AND period_no >= 0 AND monthly_kobo(billing_cycle, price_kobo * period_quantity) > 0;
