-- Fewer entries of indexes and fewer look-ups for each row that is written; what was promised stays promised.

-- A clock's charges are found by its customers.
DROP INDEX charge_test_clock;

-- What is in the hand of a process: by its clock, or looked through whole, since it is never many.
DROP INDEX charge_runner, charge_under_way_on_clock;
CREATE INDEX charge_in_hand ON charge (test_clock_id, runner) WHERE runner IS NOT NULL;

-- Of the attempts at a bill one at most is under way or has succeeded, and each number fails once; a charge has a code exactly if it has
-- failed (charge_failed_has_code).
DROP INDEX charge_bill_open_or_paid_once, charge_bill_attempt_unique;
CREATE UNIQUE INDEX charge_bill_open_or_paid_once ON charge (subscription_id, bill_no, (CASE WHEN failure_code IS NULL THEN 0 ELSE attempt_number END), account_id, livemode)
  WHERE subscription_id IS NOT NULL;

-- How often a method was used is asked of those alone that go by it.
DROP INDEX simulator_attempt_used;
CREATE INDEX simulator_attempt_used ON simulator_attempt (customer_id, payment_method_id, account_id, livemode)
  WHERE starts_with(payment_method_id, 'pm_test_success_then_');

-- Its columns are the last ones of the primary key, whose first ones are always given too.
DROP INDEX revenue_schedule_subscription;

-- Whose object exists, exists itself. An account whose books have entries has customers, plans or invoices, which keep it.
ALTER TABLE event DROP CONSTRAINT event_account_id_fkey;

-- The chart of accounts only grows (ledger_account_append_only), so that it is looked at once for all lines that come together.
ALTER TABLE ledger_line DROP CONSTRAINT ledger_line_ledger_account_fkey;
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
  SELECT l.ledger_account INTO bad
  FROM (SELECT DISTINCT ledger_account FROM new_lines) l LEFT JOIN ledger_account a ON a.code = l.ledger_account WHERE a.code IS NULL LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'there is no ledger account %', bad.ledger_account USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'ledger_line_has_account';
  END IF;
  RETURN NULL;
END $$;

ALTER TABLE ledger_entry DROP CONSTRAINT ledger_entry_account_id_fkey;
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
  -- Counts, not NOT EXISTS: that could become a join over the whole table, these are look-ups for each account and each entry.
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
