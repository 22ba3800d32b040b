-- Creates the views for finance teams, and the functions that these views use (docs/ledger.md).

CREATE SCHEMA finance;
GRANT USAGE ON SCHEMA finance TO finance_reader;
COMMENT ON SCHEMA finance IS 'Views for finance teams, readable by the role finance_reader. The main amounts are in kobo and in naira. SET billing.account = ''acct_…'' shows the rows of one account. Without it, all accounts are shown.';

-- A range, which an index answers: an account's view costs the same beside larger accounts.
CREATE FUNCTION finance.is_shown(account text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT account >= coalesce(nullif(current_setting('billing.account', true), ''), '')
    AND account <= coalesce(nullif(current_setting('billing.account', true), ''), '~')
$$;
COMMENT ON FUNCTION finance.is_shown IS 'Returns whether the setting billing.account allows the rows of an account to be shown.';

CREATE FUNCTION finance.naira(kobo numeric) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT round(kobo / 100, 2) $$;
COMMENT ON FUNCTION finance.naira IS 'Converts kobo to naira, exactly.';

CREATE FUNCTION finance.month_of(day date) RETURNS date LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT day - extract(day FROM day)::integer + 1 $$;
COMMENT ON FUNCTION finance.month_of IS 'Returns the first day of the month that contains a day.';

CREATE FUNCTION finance.balances_before(account text, code text, day date) RETURNS TABLE (livemode boolean, debit_kobo bigint, credit_kobo bigint)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 2 SECURITY DEFINER SET search_path = public, pg_temp AS $$
  WITH cut AS (
    SELECT least(finance.month_of(day), coalesce((SELECT finance.month_of(max(month) + 31) FROM ledger_totalled), '-infinity')) AS open_from
  )
  SELECT s.livemode, coalesce(sum(s.debit_kobo), 0)::bigint, coalesce(sum(s.credit_kobo), 0)::bigint FROM (
    SELECT t.livemode, t.debit_kobo, t.credit_kobo FROM ledger_total t, cut
    WHERE t.account_id = account AND t.ledger_account = code AND t.month < cut.open_from
    UNION ALL
    SELECT l.livemode, sum(l.amount_kobo) FILTER (WHERE l.amount_kobo > 0), -sum(l.amount_kobo) FILTER (WHERE l.amount_kobo < 0)
    FROM ledger_line l, cut
    WHERE l.account_id = account AND l.ledger_account = code AND l.livemode AND l.effective_on >= cut.open_from AND l.effective_on < day
    GROUP BY l.livemode
    UNION ALL
    SELECT l.livemode, sum(l.amount_kobo) FILTER (WHERE l.amount_kobo > 0), -sum(l.amount_kobo) FILTER (WHERE l.amount_kobo < 0)
    FROM ledger_line l
    WHERE l.account_id = account AND l.ledger_account = code AND NOT l.livemode AND l.effective_on < day
    GROUP BY l.livemode
  ) s GROUP BY s.livemode
$$;
COMMENT ON FUNCTION finance.balances_before IS 'Returns the debits and credits of a ledger account in one account''s books before a day, for each environment. Reads closed months from their stored sums, and all other days from the lines.';

CREATE FUNCTION finance.months(account text) RETURNS TABLE (month date, next_month date) LANGUAGE sql STABLE PARALLEL SAFE ROWS 24 SECURITY DEFINER SET search_path = public, pg_temp AS $$
  WITH RECURSIVE months AS (
    SELECT finance.month_of(min(d.day)) AS month
    FROM ledger_account c, LATERAL (SELECT min(effective_on) AS day FROM ledger_line WHERE (ledger_account, account_id) = (c.code, account)) d
    UNION ALL
    SELECT (
      SELECT finance.month_of(min(d.day))
      FROM ledger_account c, LATERAL (
        SELECT min(effective_on) AS day FROM ledger_line WHERE (ledger_account, account_id) = (c.code, account) AND effective_on >= m.month + interval '1 month'
      ) d
    )
    FROM months m WHERE m.month IS NOT NULL
  )
  SELECT month, (month + interval '1 month')::date FROM months WHERE month IS NOT NULL
$$;
COMMENT ON FUNCTION finance.months IS 'Returns the months in which an account has entries.';

CREATE FUNCTION finance.payment_months() RETURNS TABLE (month date, begins_at timestamptz, ends_at timestamptz) LANGUAGE sql STABLE PARALLEL SAFE ROWS 24 SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT m::date, m AT TIME ZONE 'UTC', (m + interval '1 month') AT TIME ZONE 'UTC' FROM generate_series(
    (SELECT date_trunc('month', min(paid_at) AT TIME ZONE 'UTC') FROM charge WHERE status = 'succeeded' AND livemode),
    (SELECT max(paid_at) AT TIME ZONE 'UTC' FROM charge WHERE status = 'succeeded' AND livemode), interval '1 month') AS m
$$;
COMMENT ON FUNCTION finance.payment_months IS 'Returns all months from the first succeeded live payment to the last, over all accounts.';

CREATE VIEW finance.reconciliation_exceptions AS
SELECT c.account_id, c.livemode, c.id AS charge, c.rail, c.customer_id AS customer, c.subscription_id AS subscription,
  CASE WHEN x.word->>'answer' = 'succeeded' THEN 'succeeded_after_failure' ELSE 'failed_after_success' END AS kind,
  c.status AS settled_as, x.word->>'answer' AS rail_says, x.word->>'code' AS failure_code, (x.word->>'at')::timestamptz AS said_at,
  c.amount_kobo, round(c.amount_kobo / 100.0, 2) AS amount_naira,
  NULL::bigint AS rail_amount_kobo, NULL::text AS rail_currency, NULL::text AS rail_reference
FROM charge c CROSS JOIN LATERAL jsonb_array_elements(c.contradictions) AS x (word)
WHERE c.contradictions <> '[]' AND finance.is_shown(c.account_id)
UNION ALL
SELECT e.account_id, e.livemode, e.charge_id, c.rail, c.customer_id, c.subscription_id, e.kind, c.status, NULL, NULL, e.at,
  c.amount_kobo, round(c.amount_kobo / 100.0, 2), e.heard_kobo, e.heard_currency, e.heard_reference
FROM rail_exception e JOIN charge c ON (c.account_id, c.livemode, c.id) = (e.account_id, e.livemode, e.charge_id)
WHERE finance.is_shown(e.account_id)
UNION ALL
-- A refunded charge may have succeeded or failed.
SELECT f.account_id, f.livemode, f.charge_id, f.rail, f.customer_id, NULL, 'refund_failed', c.status, NULL, NULL, f.requested_at,
  f.amount_kobo, round(f.amount_kobo / 100.0, 2), NULL, NULL, NULL
FROM refund f JOIN charge c ON (c.account_id, c.livemode, c.id) = (f.account_id, f.livemode, f.charge_id)
WHERE f.status = 'failed' AND finance.is_shown(f.account_id);
COMMENT ON VIEW finance.reconciliation_exceptions IS 'Reports of rails that contradict the books. The kind says how; docs/rails.md says what to do for each kind. The rail reported the opposite result for a settled charge, an amount, currency or reference that differs from the request, or a failed refund.';

CREATE VIEW finance.card_verifications AS
SELECT c.account_id, c.account_id AS account, c.livemode, c.customer_id AS customer, c.rail, c.id AS reference, c.amount_kobo,
  round(c.amount_kobo / 100.0, 2) AS amount_naira,
  CASE f.status WHEN 'returned' THEN 'returned' WHEN 'failed' THEN 'refund_failed' ELSE CASE WHEN t.taken_at IS NULL THEN c.status ELSE 'taken' END END AS status,
  t.taken_at, f.returned_at
FROM charge c
-- A failed charge may have been paid after all.
CROSS JOIN LATERAL (
  SELECT coalesce(c.paid_at, (SELECT min((x.word->>'at')::timestamptz) FROM jsonb_array_elements(c.contradictions) AS x (word) WHERE x.word->>'answer' = 'succeeded')) AS taken_at
) t
LEFT JOIN refund f ON (f.charge_id, f.account_id, f.livemode) = (c.id, c.account_id, c.livemode)
WHERE c.purpose = 'verification' AND finance.is_shown(c.account_id);
COMMENT ON VIEW finance.card_verifications IS 'Payments that rails took only to save a payment method, when nothing was due. The service refunds them immediately. Status: pending (no result yet), failed (nothing was taken), taken, returned, refund_failed. They are not charge objects and not revenue.';

CREATE VIEW finance.chart_of_accounts AS SELECT code AS ledger_account, name, kind FROM ledger_account;
COMMENT ON VIEW finance.chart_of_accounts IS 'The ledger accounts. Debit balances are positive (assets and expenses), credit balances are negative (liabilities and revenue).';

CREATE VIEW finance.closings AS SELECT no, action, month, through AS closed_through, reason, at FROM ledger_closing;
COMMENT ON VIEW finance.closings IS 'The closings and reopenings of months. The newest row shows which months are closed now. The reason says why a month was opened again, or why it was closed despite breaches or exceptions.';

CREATE VIEW finance.rules AS
SELECT * FROM (VALUES
  ('balanced', 'Every entry has all its lines, and they sum to zero.'),
  ('lines_have_entries', 'Every line belongs to an entry.'),
  ('dated', 'Every line has the date of its entry.'),
  ('charges', 'Every succeeded payment has exactly one entry for the money taken, with its amount. No other payment has one.'),
  ('sources', 'Every charge, subscription and plan that an entry names exists.'),
  ('refunds', 'The books contain every refund that a rail confirmed, and no other refund.'),
  ('receivable', 'Each customer owes the same amount by the API and by the books.'),
  ('deposits', 'The deposits of each instalment plan are the same by its payments and by the books.'),
  ('deferred', 'Deferred revenue equals the revenue that the schedules have not recognised yet.'),
  ('recognised', 'The daily entries of each plan sum to the revenue that the schedules recognise by day.'),
  ('suspense', 'Nothing is in suspense.'),
  ('invoices', 'Each merchant owes the same amount by its service invoices and by the service''s own books.'),
  ('mrr', 'The movements of each subscription sum to its monthly recurring revenue.'),
  ('totals', 'The stored sums of closed months and of days equal the sums of their lines.')
) AS r (rule, meaning);
COMMENT ON VIEW finance.rules IS 'The rules that the books must satisfy.';

-- Accounts can move between cells. The rows of a moving account are shown only if billing.account names it. A merchant's service
-- invoices are compared over all cells in which the merchant has lived (docs/scaling.md).
CREATE VIEW account_away AS SELECT account_id FROM account_move WHERE state IN ('left', 'arriving', 'withdrawn');
COMMENT ON VIEW account_away IS 'Accounts that are moving between this cell and another and do not live here. Some of their rows may be missing, so the views leave them out.';

CREATE FUNCTION finance.accounts() RETURNS SETOF text LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1 SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE wanted text := nullif(current_setting('billing.account', true), '');
BEGIN
  IF wanted IS NOT NULL THEN RETURN NEXT wanted; ELSE RETURN QUERY SELECT a.id FROM account a WHERE NOT EXISTS (SELECT 1 FROM account_away w WHERE w.account_id = a.id); END IF;
END $$;
COMMENT ON FUNCTION finance.accounts IS 'Returns the account in the setting billing.account. If it is not set, returns all accounts that live in this cell.';

CREATE FUNCTION finance.trial_balance_at(day date)
RETURNS TABLE (account_id text, livemode boolean, ledger_account text, name text, kind text, currency text,
  debit_kobo bigint, credit_kobo bigint, balance_kobo bigint, debit_naira numeric, credit_naira numeric, balance_naira numeric)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT a.id, b.livemode, c.code, c.name, c.kind, 'NGN', b.debit_kobo, b.credit_kobo, b.debit_kobo - b.credit_kobo,
    finance.naira(b.debit_kobo), finance.naira(b.credit_kobo), finance.naira(b.debit_kobo - b.credit_kobo)
  FROM finance.accounts() AS a (id) CROSS JOIN ledger_account c CROSS JOIN LATERAL finance.balances_before(a.id, c.code, day + 1) b
$$;
COMMENT ON FUNCTION finance.trial_balance_at IS 'Returns the trial balance at the end of a day: SELECT * FROM finance.trial_balance_at(''2026-10-31'').';

CREATE VIEW finance.trial_balance AS SELECT * FROM finance.trial_balance_at('8999-12-31');
COMMENT ON VIEW finance.trial_balance IS 'Debits, credits and balance of each ledger account, by merchant and environment, up to the newest entry. The balances of one merchant and environment sum to zero. Debit balances are positive. For another day use finance.trial_balance_at.';

-- Leaves out the units of trials, which are free (decision E1).
CREATE VIEW finance.unbilled_units AS
SELECT s.account_id, s.livemode, s.id AS subscription, s.customer_id AS customer, s.plan_id AS plan,
  CASE WHEN s.status = 'cancelled' THEN 'unbilled' ELSE 'pending' END AS state, s.units,
  p.overage_per_unit_kobo AS unit_price_kobo,
  s.units * coalesce(p.overage_per_unit_kobo, 0) AS amount_kobo,
  round(s.units * coalesce(p.overage_per_unit_kobo, 0) / 100.0, 2) AS amount_naira,
  s.period_start_at AS since, s.cancelled_at
FROM finance.accounts() AS a (id)
JOIN subscription s ON s.account_id = a.id
JOIN plan p ON (p.account_id, p.livemode, p.id) = (s.account_id, s.livemode, s.plan_id)
WHERE s.units > 0 AND s.status <> 'trialing' AND (s.status = 'cancelled' AND s.period_no < 0 AND s.cancelled_at <= s.trial_end_at) IS NOT TRUE;
COMMENT ON VIEW finance.unbilled_units IS 'Units that were reported but are not billed. State: pending (the next bill includes them) or unbilled (the subscription was cancelled without a bill for them). Amounts use the plan''s current price. Units of trials are free and are not listed.';

CREATE VIEW finance.general_ledger AS
SELECT l.account_id, l.livemode, l.effective_on, e.id AS entry, e.event, l.line_no, l.ledger_account, c.name, c.kind, l.detail,
  greatest(l.amount_kobo, 0) AS debit_kobo, greatest(-l.amount_kobo, 0) AS credit_kobo, l.amount_kobo,
  finance.naira(greatest(l.amount_kobo, 0)) AS debit_naira, finance.naira(greatest(-l.amount_kobo, 0)) AS credit_naira,
  e.customer_id AS customer, e.subscription_id AS subscription, e.bill_no, e.charge_id AS charge, e.plan_id AS plan, e.test_clock_id AS test_clock,
  e.occurred_on, e.corrects, e.reverses, e.posted_at, e.reason
FROM finance.accounts() AS a (id)
CROSS JOIN ledger_account c
JOIN ledger_line l ON (l.ledger_account, l.account_id) = (c.code, a.id)
JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id);
COMMENT ON VIEW finance.general_ledger IS 'All lines of all entries. Filter by effective_on, and by customer, subscription, charge or plan. If the month of occurred_on was already closed, effective_on is later, and the entry is a correction (corrects).';

CREATE VIEW finance.receivables_ageing AS
WITH owed AS (
  SELECT s.account_id, s.livemode, s.customer_id AS customer, s.id AS subscription, s.plan_id AS plan, (s.bill->>'no')::integer AS bill_no, NULL::text AS invoice,
    (s.bill->>'amountKobo')::bigint AS amount_kobo,
    (to_timestamp((s.dunning->>'firstFailedAt')::bigint / 1000.0) AT TIME ZONE 'UTC')::date AS owed_since,
    CASE WHEN s.test_clock_id IS NULL THEN (now() AT TIME ZONE 'UTC')::date ELSE (SELECT (k.frozen_at AT TIME ZONE 'UTC')::date FROM test_clock k WHERE (k.account_id, k.livemode, k.id) = (s.account_id, s.livemode, s.test_clock_id)) END AS today
  FROM finance.accounts() AS a (id) JOIN subscription s ON s.account_id = a.id
  WHERE s.status IN ('past_due', 'paused', 'trialing', 'incomplete') AND s.dunning IS NOT NULL
  UNION ALL
  SELECT 'acct_service', true, i.account_id, NULL, NULL, NULL, i.id, i.total_kobo, (i.created_at AT TIME ZONE 'UTC')::date, (now() AT TIME ZONE 'UTC')::date
  FROM invoice i WHERE i.state IN ('open', 'overdue') AND i.total_kobo <> 0 AND finance.is_shown('acct_service')
)
SELECT o.account_id, o.livemode, o.customer, c.name AS customer_name, o.subscription, o.plan, o.bill_no, o.invoice, o.owed_since, o.today - o.owed_since AS days_overdue,
  CASE WHEN o.today - o.owed_since <= 30 THEN '0-30' WHEN o.today - o.owed_since <= 60 THEN '31-60' WHEN o.today - o.owed_since <= 90 THEN '61-90' ELSE '90+' END AS bucket,
  o.amount_kobo, finance.naira(o.amount_kobo) AS amount_naira
FROM owed o LEFT JOIN customer c ON (c.account_id, c.livemode, c.id) = (o.account_id, o.livemode, o.customer);
COMMENT ON VIEW finance.receivables_ageing IS 'The current debts of customers by age in days: 0-30, 31-60, 61-90, 90+. For a customer on a test clock, that clock gives the age. The debts of merchants for the service itself are in the books of acct_service.';

CREATE VIEW finance.deferred_revenue AS
SELECT a.id AS account_id, m.month, o.livemode, coalesce(b.credit_kobo - b.debit_kobo, 0) AS opening_kobo,
  o.billed_kobo, o.recognised_kobo, o.ended_kobo, o.written_off_kobo,
  coalesce(b.credit_kobo - b.debit_kobo, 0) + o.billed_kobo - o.recognised_kobo - o.ended_kobo - o.written_off_kobo AS closing_kobo,
  finance.naira(coalesce(b.credit_kobo - b.debit_kobo, 0)) AS opening_naira, finance.naira(o.billed_kobo) AS billed_naira, finance.naira(o.recognised_kobo) AS recognised_naira,
  finance.naira(o.ended_kobo) AS ended_naira, finance.naira(o.written_off_kobo) AS written_off_naira,
  finance.naira(coalesce(b.credit_kobo - b.debit_kobo, 0) + o.billed_kobo - o.recognised_kobo - o.ended_kobo - o.written_off_kobo) AS closing_naira
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL finance.months(a.id) m
CROSS JOIN LATERAL (
  SELECT k.livemode, coalesce(sum(x.kobo) FILTER (WHERE x.event IN ('paid', 'owed', 'waived')), 0)::bigint AS billed_kobo,
    coalesce(-sum(x.kobo) FILTER (WHERE x.event = 'recognised'), 0)::bigint AS recognised_kobo,
    coalesce(-sum(x.kobo) FILTER (WHERE starts_with(x.event, 'service_')), 0)::bigint AS ended_kobo,
    coalesce(-sum(x.kobo) FILTER (WHERE x.event = 'written_off'), 0)::bigint AS written_off_kobo
  FROM (VALUES (true), (false)) AS k (livemode)
  LEFT JOIN (
    SELECT l.livemode, e.event, -l.amount_kobo AS kobo FROM ledger_line l
    JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
    WHERE l.account_id = a.id AND l.ledger_account = 'deferred_revenue' AND l.effective_on >= m.month AND l.effective_on < m.next_month
  ) x ON x.livemode = k.livemode
  GROUP BY k.livemode
) o
LEFT JOIN LATERAL finance.balances_before(a.id, 'deferred_revenue', m.month) b ON b.livemode = o.livemode
UNION ALL
-- Adds the months without entries between months with entries. Their balance does not change. Live months end today; only test clocks
-- can be ahead.
SELECT a.id, g.month::date, k.livemode, v.kobo, 0, 0, 0, 0, v.kobo, finance.naira(v.kobo), finance.naira(0), finance.naira(0), finance.naira(0), finance.naira(0), finance.naira(v.kobo)
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL (SELECT m.next_month AS since, lead(m.month) OVER (ORDER BY m.month) AS until FROM finance.months(a.id) m) q
CROSS JOIN (VALUES (true), (false)) AS k (livemode)
LEFT JOIN LATERAL finance.balances_before(a.id, 'deferred_revenue', q.since) b ON b.livemode = k.livemode
CROSS JOIN LATERAL (SELECT coalesce(b.credit_kobo - b.debit_kobo, 0) AS kobo) v
CROSS JOIN LATERAL generate_series(q.since::timestamp, q.until::timestamp - interval '1 month', interval '1 month') AS g (month)
WHERE q.until > q.since AND (NOT k.livemode OR g.month <= now() AT TIME ZONE 'UTC');
COMMENT ON VIEW finance.deferred_revenue IS 'The roll-forward of deferred revenue, for each month from the account''s first to its newest: closing = opening + billed in advance - recognised by day - recognised in one amount (ended: service ended, paused, resumed or delivered) - written off.';

CREATE VIEW finance.revenue_by_plan AS
SELECT a.id AS account_id, o.livemode, m.month, o.plan, p.name AS plan_name,
  o.subscription_kobo, o.usage_kobo, o.one_off_kobo, o.goods_kobo, o.fees_kobo, o.revenue_kobo, finance.naira(o.revenue_kobo) AS revenue_naira
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL finance.months(a.id) m
CROSS JOIN LATERAL (
  SELECT l.livemode, e.plan_id AS plan,
    coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'subscription_revenue'), 0)::bigint AS subscription_kobo,
    coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'usage_revenue'), 0)::bigint AS usage_kobo,
    coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'one_off_revenue'), 0)::bigint AS one_off_kobo,
    coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'goods_revenue'), 0)::bigint AS goods_kobo,
    coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account IN ('cancellation_fees', 'fee_revenue')), 0)::bigint AS fees_kobo,
    -sum(l.amount_kobo)::bigint AS revenue_kobo
  FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
  WHERE l.account_id = a.id AND l.ledger_account IN ('subscription_revenue', 'usage_revenue', 'one_off_revenue', 'goods_revenue', 'cancellation_fees', 'fee_revenue')
    AND l.effective_on >= m.month AND l.effective_on < m.next_month
  GROUP BY l.livemode, e.plan_id
) o
LEFT JOIN plan p ON (p.account_id, p.livemode, p.id) = (a.id, o.livemode, o.plan);
COMMENT ON VIEW finance.revenue_by_plan IS 'Revenue by plan and month, without VAT: served periods, units, one-off charges, goods, and fees. In rows without a plan, the revenue belongs to no plan.';

CREATE VIEW finance.vat AS
SELECT a.id AS account_id, o.livemode, m.month, o.output_kobo, o.reversed_kobo, o.output_kobo - o.reversed_kobo AS payable_kobo,
  finance.naira(o.output_kobo) AS output_naira, finance.naira(o.reversed_kobo) AS reversed_naira, finance.naira(o.output_kobo - o.reversed_kobo) AS payable_naira
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL finance.months(a.id) m
CROSS JOIN LATERAL (
  SELECT l.livemode, coalesce(-sum(l.amount_kobo) FILTER (WHERE l.amount_kobo < 0), 0)::bigint AS output_kobo,
    coalesce(sum(l.amount_kobo) FILTER (WHERE l.amount_kobo > 0), 0)::bigint AS reversed_kobo
  FROM ledger_line l
  WHERE l.account_id = a.id AND l.ledger_account = 'output_vat' AND l.effective_on >= m.month AND l.effective_on < m.next_month
  GROUP BY l.livemode
) o;
COMMENT ON VIEW finance.vat IS 'Output VAT by month: the VAT on sales, less the reversed VAT (of the unserved part of written-off bills, and of void service invoices).';

CREATE VIEW finance.mrr_movements AS
WITH moved AS (
  SELECT v.account_id, v.livemode, finance.month_of(v.moved_on) AS month, sum(v.change_kobo)::bigint AS change_kobo,
    coalesce(sum(v.change_kobo) FILTER (WHERE v.kind = 'new'), 0)::bigint AS new_kobo,
    coalesce(sum(v.change_kobo) FILTER (WHERE v.kind = 'expansion'), 0)::bigint AS expansion_kobo,
    coalesce(sum(v.change_kobo) FILTER (WHERE v.kind = 'contraction'), 0)::bigint AS contraction_kobo,
    coalesce(sum(v.change_kobo) FILTER (WHERE v.kind = 'churn'), 0)::bigint AS churn_kobo,
    coalesce(sum(v.change_kobo) FILTER (WHERE v.kind = 'reactivation'), 0)::bigint AS reactivation_kobo,
    count(*) FILTER (WHERE v.kind IN ('new', 'reactivation')) AS begun, count(*) FILTER (WHERE v.kind = 'churn') AS churned
  FROM finance.accounts() AS a (id) JOIN mrr_movement v ON v.account_id = a.id
  GROUP BY v.account_id, v.livemode, finance.month_of(v.moved_on)
), months AS (
  SELECT r.account_id, r.livemode, m::date AS month FROM (
    SELECT account_id, livemode, min(month) AS first, greatest(max(month), CASE WHEN livemode THEN finance.month_of((now() AT TIME ZONE 'UTC')::date) END) AS last FROM moved GROUP BY account_id, livemode
  ) r CROSS JOIN LATERAL generate_series(r.first::timestamp, r.last::timestamp, interval '1 month') AS m
), rolled AS (
  SELECT m.account_id, m.livemode, m.month, coalesce(sum(v.change_kobo) OVER w, 0)::bigint AS closing_kobo, coalesce(v.change_kobo, 0) AS change_kobo,
    coalesce(v.new_kobo, 0) AS new_kobo, coalesce(v.expansion_kobo, 0) AS expansion_kobo, coalesce(v.contraction_kobo, 0) AS contraction_kobo,
    coalesce(v.churn_kobo, 0) AS churn_kobo, coalesce(v.reactivation_kobo, 0) AS reactivation_kobo,
    coalesce(sum(v.begun - v.churned) OVER w, 0)::bigint AS subscriptions
  FROM months m LEFT JOIN moved v USING (account_id, livemode, month)
  WINDOW w AS (PARTITION BY m.account_id, m.livemode ORDER BY m.month)
)
SELECT account_id, livemode, month, closing_kobo - change_kobo AS opening_kobo, new_kobo, expansion_kobo, contraction_kobo, churn_kobo, reactivation_kobo, closing_kobo, subscriptions,
  finance.naira(closing_kobo - change_kobo) AS opening_naira, finance.naira(new_kobo) AS new_naira, finance.naira(expansion_kobo) AS expansion_naira,
  finance.naira(contraction_kobo) AS contraction_naira, finance.naira(churn_kobo) AS churn_naira, finance.naira(reactivation_kobo) AS reactivation_naira, finance.naira(closing_kobo) AS closing_naira
FROM rolled;
COMMENT ON VIEW finance.mrr_movements IS 'Monthly recurring revenue: closing = opening + new + expansion + contraction + churn + reactivation. Contraction and churn are below zero. Active and past due subscriptions count, from their first paid period. A pause is churn, and a resumption is reactivation.';

CREATE VIEW finance.dunning AS
SELECT a.id AS account_id, o.*, finance.naira(o.failed_kobo) AS failed_naira, finance.naira(o.recovered_kobo) AS recovered_naira, finance.naira(o.written_off_kobo) AS written_off_naira, finance.naira(o.open_kobo) AS open_naira
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL finance.months(a.id) m
CROSS JOIN LATERAL (
  SELECT e.livemode, m.month, count(*) AS failed, sum(l.amount_kobo)::bigint AS failed_kobo,
    count(p.id) AS recovered, coalesce(sum(l.amount_kobo) FILTER (WHERE p.id IS NOT NULL), 0)::bigint AS recovered_kobo,
    count(*) FILTER (WHERE c.attempt_number = 2) AS recovered_by_retry_1, count(*) FILTER (WHERE c.attempt_number = 3) AS recovered_by_retry_2,
    count(*) FILTER (WHERE c.attempt_number = 4) AS recovered_by_retry_3, count(*) FILTER (WHERE c.attempt_number > 4) AS recovered_later,
    count(w.id) AS written_off, coalesce(sum(l.amount_kobo) FILTER (WHERE w.id IS NOT NULL), 0)::bigint AS written_off_kobo,
    count(*) FILTER (WHERE p.id IS NULL AND w.id IS NULL) AS open, coalesce(sum(l.amount_kobo) FILTER (WHERE p.id IS NULL AND w.id IS NULL), 0)::bigint AS open_kobo,
    round(100.0 * count(p.id) / count(*), 1) AS recovery_rate_percent
  FROM ledger_line l
  JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id) AND e.event = 'owed'
  LEFT JOIN ledger_entry p ON (p.subscription_id, p.bill_no, p.account_id, p.livemode) = (e.subscription_id, e.bill_no, e.account_id, e.livemode) AND p.event = 'overdue_paid'
  LEFT JOIN ledger_entry w ON (w.subscription_id, w.bill_no, w.account_id, w.livemode) = (e.subscription_id, e.bill_no, e.account_id, e.livemode) AND w.event = 'written_off'
  LEFT JOIN charge c ON (c.account_id, c.livemode, c.id) = (p.account_id, p.livemode, p.charge_id)
  WHERE l.ledger_account = 'receivable' AND l.account_id = a.id AND l.effective_on >= m.month AND l.effective_on < m.next_month
  GROUP BY e.livemode
) o;
COMMENT ON VIEW finance.dunning IS 'Bills that could not be collected, by the month of the first failure: the number and amount recovered, written off and still open, the number recovered by each retry, and the recovery rate (of the number, not of the amount).';

-- The cost of these views is proportional to the rows that they return.
-- OFFSET 0 makes the planner find the months of an account once, before the join with lines, and not once for each payment.
CREATE VIEW finance.clearing AS
SELECT a.id AS account_id, t.livemode, m.month, l.detail AS rail, t.charge_id AS reference, t.customer_id AS customer, t.effective_on AS taken_on, t.event,
  sums.taken_kobo, sums.returned_kobo, sums.settled_kobo, sums.taken_kobo - sums.returned_kobo - sums.settled_kobo AS balance_kobo,
  finance.naira(sums.taken_kobo - sums.returned_kobo - sums.settled_kobo) AS balance_naira,
  CASE WHEN sums.taken_kobo > sums.returned_kobo + sums.settled_kobo THEN 'at the rail' WHEN sums.taken_kobo < sums.returned_kobo + sums.settled_kobo THEN 'owed to the rail'
    WHEN sums.settled_kobo > 0 THEN 'settled' ELSE 'returned' END AS status
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL (SELECT a.id AS account_id, months.month, months.next_month FROM finance.months(a.id) OFFSET 0) m
JOIN ledger_line l ON l.ledger_account = 'clearing' AND l.account_id = m.account_id AND l.effective_on >= m.month AND l.effective_on < m.next_month
JOIN ledger_entry t ON (t.account_id, t.livemode, t.id) = (l.account_id, l.livemode, l.entry_id)
  AND t.event IN ('paid', 'overdue_paid', 'refund_due', 'contradicted', 'verification', 'deposit_paid') AND t.charge_id IS NOT NULL
CROSS JOIN LATERAL (
  -- The payment's own line is already joined. Reads only its other lines.
  SELECT (l.amount_kobo + coalesce(sum(x.amount_kobo) FILTER (WHERE x.amount_kobo > 0), 0))::bigint AS taken_kobo,
    coalesce(-sum(x.amount_kobo) FILTER (WHERE e.event = 'refunded'), 0)::bigint AS returned_kobo,
    coalesce(-sum(x.amount_kobo) FILTER (WHERE e.event = 'settled'), 0)::bigint AS settled_kobo
  FROM ledger_entry e JOIN ledger_line x ON (x.account_id, x.livemode, x.entry_id) = (e.account_id, e.livemode, e.id) AND x.ledger_account = 'clearing'
  WHERE (e.charge_id, e.account_id, e.livemode) = (t.charge_id, t.account_id, t.livemode) AND e.id <> t.id
) sums;
COMMENT ON VIEW finance.clearing IS 'One row for each payment: the amounts that the rail took, sent back and settled (payout and fee), and the balance that should still be at the rail. Dates are those of the books: if the month of the payment was already closed, taken_on is the first open day (finance.general_ledger has occurred_on).';

CREATE VIEW finance.settlements AS
SELECT e.account_id, e.livemode, b.month, e.occurred_on AS settled_on, max(l.detail) FILTER (WHERE l.ledger_account = 'bank') AS payout,
  coalesce(max(l.detail) FILTER (WHERE l.ledger_account = 'clearing'), max(l.detail) FILTER (WHERE l.ledger_account <> 'bank')) AS rail, e.charge_id AS reference,
  coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'clearing'), 0)::bigint AS amount_kobo,
  coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'rail_fees'), 0)::bigint AS fee_kobo,
  coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'bank'), 0)::bigint AS paid_out_kobo,
  finance.naira(coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'rail_fees'), 0)) AS fee_naira,
  finance.naira(coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'bank'), 0)) AS paid_out_naira,
  coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'suspense'), 0)::bigint AS suspense_kobo,
  finance.naira(coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'suspense'), 0)) AS suspense_naira
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL (
  SELECT DISTINCT l.account_id, l.livemode, l.entry_id, m.month
  FROM finance.months(a.id) m
  JOIN ledger_line l ON l.ledger_account IN ('bank', 'rail_fees', 'suspense') AND l.account_id = a.id AND l.effective_on >= m.month AND l.effective_on < m.next_month
) b
JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (b.account_id, b.livemode, b.entry_id) AND e.event IN ('settled', 'explained')
JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
GROUP BY e.account_id, e.livemode, b.month, e.id, e.occurred_on, e.charge_id
HAVING e.event = 'settled' OR bool_or(l.ledger_account IN ('bank', 'rail_fees'));
COMMENT ON VIEW finance.settlements IS 'Payouts of rails by payment, with their fees. They come from files that cli ledger settle read, and from cli ledger explain if it added to the bank or the fees. The amount is the fee, the payout and the amount put into suspense (below zero: taken out of suspense). Sum by settled_on or payout to match the bank statement. The month is that of the books.';

CREATE VIEW finance.deposits AS
SELECT a.id AS account_id, o.livemode, o.plan, o.paid_kobo, o.delivered_kobo, o.cancelled_kobo - o.kept_kobo AS returned_kobo, o.balance_kobo, finance.naira(o.balance_kobo) AS balance_naira,
  o.kept_kobo
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL (
  SELECT l.livemode, l.detail AS plan, coalesce(-sum(l.amount_kobo) FILTER (WHERE e.event = 'deposit_paid'), 0)::bigint AS paid_kobo,
    coalesce(sum(l.amount_kobo) FILTER (WHERE e.event = 'goods_delivered'), 0)::bigint AS delivered_kobo,
    coalesce(sum(l.amount_kobo) FILTER (WHERE e.event = 'deposit_cancelled'), 0)::bigint AS cancelled_kobo,
    coalesce(sum(f.kept_kobo), 0)::bigint AS kept_kobo, -sum(l.amount_kobo)::bigint AS balance_kobo
  FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
  LEFT JOIN LATERAL (
    SELECT -sum(x.amount_kobo) AS kept_kobo FROM ledger_line x
    WHERE (x.account_id, x.livemode, x.entry_id) = (e.account_id, e.livemode, e.id) AND x.ledger_account = 'cancellation_fees' AND e.event = 'deposit_cancelled'
  ) f ON true
  WHERE l.account_id = a.id AND l.ledger_account = 'buyer_deposits'
  GROUP BY l.livemode, l.detail
) o;
COMMENT ON VIEW finance.deposits IS 'The instalments that buyers paid, by instalment plan: for goods not delivered yet (balance), for delivered goods, or for cancelled plans (the amount to return, and the fees that the merchant keeps).';

CREATE VIEW finance.refunds_owed AS
SELECT a.id AS account_id, o.livemode, o.charge, o.customer, o.why, o.owed_since, o.amount_kobo, finance.naira(o.amount_kobo) AS amount_naira, f.status AS refund, f.failure_message
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL (
  SELECT l.livemode, e.charge_id AS charge, max(e.customer_id) AS customer, string_agg(DISTINCT e.event, ', ') FILTER (WHERE l.amount_kobo < 0) AS why,
    min(e.effective_on) AS owed_since, -sum(l.amount_kobo)::bigint AS amount_kobo
  FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
  WHERE l.account_id = a.id AND l.ledger_account = 'refunds_payable'
  -- The debt of a cancelled instalment plan belongs to no single charge.
  GROUP BY l.livemode, e.charge_id, CASE WHEN e.charge_id IS NULL THEN e.idempotency_key END HAVING sum(l.amount_kobo) <> 0
) o
LEFT JOIN refund f ON (f.charge_id, f.account_id, f.livemode) = (o.charge, a.id, o.livemode);
COMMENT ON VIEW finance.refunds_owed IS 'Money that is owed back and is not sent back yet, by charge: all reasons (why), the day since which it is owed, and the status of the rail''s refund if one was requested.';

CREATE VIEW finance.recognition AS
SELECT r.*, finance.naira(r.amount_kobo) AS amount_naira, finance.naira(r.recognised_kobo) AS recognised_naira, finance.naira(r.remaining_kobo) AS remaining_naira FROM (
SELECT s.account_id, s.livemode, s.subscription_id AS subscription, s.bill_no, s.part, s.customer_id AS customer, s.plan_id AS plan, d.day, finance.month_of(d.day) AS month,
  recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day) - CASE WHEN d.day > s.from_on THEN recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day - 1) ELSE 0 END AS amount_kobo,
  recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day) AS recognised_kobo, s.amount_kobo - recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day) AS remaining_kobo,
  CASE WHEN d.day <= b.posted_on THEN 'booked' ELSE 'scheduled' END AS status,
  CASE WHEN d.day <= b.posted_on THEN (
    SELECT e.id FROM ledger_entry e
    -- Must have the collation of the key's column. Otherwise Postgres does not use its index.
    WHERE (e.idempotency_key, e.account_id, e.livemode) = (('recognised:' || s.plan_id || ':' || d.day || ':' || b.id) COLLATE "default", s.account_id, s.livemode)
  ) END AS entry
FROM finance.accounts() AS a (id)
JOIN revenue_schedule s ON s.account_id = a.id
JOIN revenue_book b ON (b.account_id, b.livemode, b.id) = (s.account_id, s.livemode, coalesce(s.test_clock_id, 'wall'))
CROSS JOIN LATERAL (SELECT s.from_on + n AS day FROM generate_series(0, s.until_on - s.from_on - 1) AS n) d
UNION ALL
SELECT e.account_id, e.livemode, e.subscription_id, e.bill_no, NULL, e.customer_id, e.plan_id, e.occurred_on, finance.month_of(e.occurred_on), -l.amount_kobo, NULL, NULL, 'booked', e.id
FROM finance.accounts() AS a (id)
JOIN ledger_line l ON l.ledger_account = 'subscription_revenue' AND l.account_id = a.id
JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id) AND e.event <> 'recognised'
) r;
COMMENT ON VIEW finance.recognition IS 'The revenue of each bill: one row for each day, and one row (part is null) for revenue that was recognised in one amount, for example when service ended early. For a day and plan, the rows with a part sum to the entry of that day. Filter by subscription, or by plan and day.';

CREATE VIEW finance.fees_owed AS
SELECT o.merchant, o.invoices_kobo, o.books_kobo,
  NOT EXISTS (SELECT 1 FROM account a WHERE a.id = o.merchant AND a.cells = '{}' AND NOT EXISTS (SELECT 1 FROM account_away w WHERE w.account_id = a.id)) AS has_moved
FROM (
  SELECT coalesce(i.account_id, b.merchant) AS merchant, coalesce(i.kobo, 0)::bigint AS invoices_kobo, coalesce(b.kobo, 0)::bigint AS books_kobo
  FROM (SELECT account_id, sum(total_kobo) AS kobo FROM invoice v WHERE state IN ('open', 'overdue') AND NOT EXISTS (SELECT 1 FROM account_away w WHERE w.account_id = v.account_id) GROUP BY 1) i
  FULL JOIN (
    SELECT detail AS merchant, sum(amount_kobo) AS kobo FROM ledger_line WHERE account_id = 'acct_service' AND ledger_account = 'receivable' GROUP BY 1
  ) b ON b.merchant = i.account_id
) o
WHERE (o.invoices_kobo <> 0 OR o.books_kobo <> 0) AND (finance.is_shown('acct_service') OR finance.is_shown(o.merchant));
COMMENT ON VIEW finance.fees_owed IS 'The debts of merchants for the service, by their invoices and by the service''s own books. If a merchant has moved between cells, its invoices are in its current cell, and its entries are in the cells that booked them. Summed over all its cells, the two amounts are equal.';
COMMENT ON COLUMN finance.fees_owed.has_moved IS 'Whether the merchant has lived in another cell, or lives there now.';

-- Sums the lines of a reference since its balance was last zero. A reference that was explained or paid out later has none.
CREATE VIEW finance.suspense AS
SELECT r.account_id, r.livemode, finance.month_of(min(r.effective_on)) AS month, min(r.effective_on) AS since, max(r.detail) AS rail, r.reference,
  sum(r.amount_kobo)::bigint AS amount_kobo, finance.naira(sum(r.amount_kobo)) AS amount_naira
FROM (
  SELECT x.*, max(CASE WHEN x.running_kobo = 0 THEN x.no ELSE 0 END) OVER (PARTITION BY x.account_id, x.livemode, x.reference) AS last_balanced
  FROM (
    SELECT l.account_id, l.livemode, coalesce(e.charge_id, e.id) AS reference, l.effective_on, l.detail, l.amount_kobo, row_number() OVER w AS no, sum(l.amount_kobo) OVER w AS running_kobo
    FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
    WHERE l.ledger_account = 'suspense' AND finance.is_shown(l.account_id)
      AND NOT EXISTS (SELECT 1 FROM account_away w WHERE w.account_id = l.account_id AND w.account_id IS DISTINCT FROM nullif(current_setting('billing.account', true), ''))
    WINDOW w AS (PARTITION BY l.account_id, l.livemode, coalesce(e.charge_id, e.id) ORDER BY e.posted_at, e.id, l.line_no)
  ) x
) r
WHERE r.no > r.last_balanced
GROUP BY r.account_id, r.livemode, r.reference;
COMMENT ON VIEW finance.suspense IS 'The balances that settlements left in suspense and that are neither explained nor paid out yet, by reference, in the month of the settlement. Above zero (debit): the rail paid out too little. Below zero: too much. cli ledger explain closes a balance.';

CREATE VIEW finance.breaches AS
SELECT * FROM (
SELECT e.account_id, e.livemode, m.month, v.rule, e.entry_id AS about,
  CASE v.rule
    WHEN 'lines_have_entries' THEN format('entry %s has lines but does not exist', e.entry_id)
    WHEN 'balanced' THEN format('entry %s: its lines sum to %s kobo, and %s of its %s lines exist', e.entry_id, e.kobo, e.lines, e.line_count)
    WHEN 'dated' THEN format('entry %s is dated %s, but its lines have another date', e.entry_id, e.effective_on)
    WHEN 'charges' THEN format('entry %s (%s) books %s kobo for charge %s, which is %s with %s kobo', e.id, e.event, e.taken_kobo, e.charge_id, coalesce(c.status, 'succeeded'), coalesce(e.paid_kobo, c.amount_kobo))
    ELSE format('entry %s (%s) names %s, which does not exist', e.id, e.event, coalesce(e.charge_id, e.subscription_id, e.plan_id))
  END AS problem
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL finance.months(a.id) m
CROSS JOIN LATERAL (
  SELECT y.*, e.id, e.event, e.line_count, e.effective_on, e.charge_id, e.subscription_id, e.plan_id, k.id AS paid_id, k.amount_kobo AS paid_kobo, k.subscription_id AS paid_for
  FROM (
    SELECT l.account_id, l.livemode, l.entry_id, sum(l.amount_kobo) AS kobo, count(*) AS lines, min(l.effective_on) AS earliest, max(l.effective_on) AS latest,
      coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'clearing'), 0) AS taken_kobo
    FROM ledger_account c JOIN ledger_line l ON l.ledger_account = c.code AND l.account_id = a.id AND l.effective_on >= m.month AND l.effective_on < m.next_month
    GROUP BY l.account_id, l.livemode, l.entry_id
  ) y
  LEFT JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (y.account_id, y.livemode, y.entry_id)
  -- Most entries are about a payment of their month and about its subscription, which a foreign key guarantees. These are read together
  -- (OFFSET 0); only the others are looked up one by one.
  LEFT JOIN (
    SELECT c.id, c.amount_kobo, c.subscription_id FROM charge c
    WHERE c.status = 'succeeded' AND c.livemode AND c.account_id = a.id
      AND c.paid_at >= m.month::timestamp AT TIME ZONE 'UTC' AND c.paid_at < m.next_month::timestamp AT TIME ZONE 'UTC' OFFSET 0
  ) k ON e.livemode AND k.id = e.charge_id
) e
LEFT JOIN charge c ON (c.account_id, c.livemode, c.id) = (e.account_id, e.livemode, CASE WHEN e.paid_id IS NULL THEN e.charge_id END)
LEFT JOIN LATERAL (
  SELECT s.id FROM subscription s
  WHERE (s.account_id, s.livemode, s.id) = (e.account_id, e.livemode, e.subscription_id) AND e.subscription_id IS DISTINCT FROM coalesce(e.paid_for, c.subscription_id) OFFSET 0
) s ON true
LEFT JOIN plan p ON (p.account_id, p.livemode, p.id) = (e.account_id, e.livemode, e.plan_id)
CROSS JOIN LATERAL (
  SELECT CASE WHEN e.id IS NULL THEN 'lines_have_entries' WHEN e.kobo <> 0 OR e.lines <> e.line_count THEN 'balanced'
    WHEN e.earliest <> e.effective_on OR e.latest <> e.effective_on THEN 'dated'
    WHEN (e.charge_id IS NOT NULL AND e.paid_id IS NULL AND c.id IS NULL) OR (e.subscription_id IS DISTINCT FROM coalesce(e.paid_for, c.subscription_id) AND s.id IS NULL AND e.subscription_id IS NOT NULL) OR (e.plan_id IS NOT NULL AND p.id IS NULL) THEN 'sources'
    WHEN e.event IN ('paid', 'overdue_paid', 'refund_due', 'verification', 'deposit_paid') AND (c.status <> 'succeeded' OR coalesce(e.paid_kobo, c.amount_kobo) <> e.taken_kobo) THEN 'charges' END AS rule
) v
WHERE v.rule IS NOT NULL
  AND (v.rule <> 'sources' OR NOT EXISTS (SELECT 1 FROM deletion d WHERE (d.account_id, d.livemode) = (e.account_id, e.livemode)))
UNION ALL
SELECT e.account_id, e.livemode, NULL, 'balanced', e.id, format('entry %s: 0 of its %s lines exist', e.id, e.line_count)
FROM ledger_entry e
LEFT JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id, l.line_no) = (e.account_id, e.livemode, e.id, 1)
WHERE l.line_no IS NULL AND finance.is_shown(e.account_id)
UNION ALL
SELECT k.account_id, k.livemode, k.month, 'charges', k.id, format('charge %s succeeded with %s kobo, and %s entries book the money taken', k.id, k.amount_kobo, t.entries)
FROM (
  SELECT c.account_id, true AS livemode, m.month, c.id, c.amount_kobo
  FROM finance.payment_months() m JOIN charge c ON c.status = 'succeeded' AND c.livemode AND c.paid_at >= m.begins_at AND c.paid_at < m.ends_at
  WHERE finance.is_shown(c.account_id)
  UNION ALL
  SELECT c.account_id, false, finance.month_of((c.paid_at AT TIME ZONE 'UTC')::date), c.id, c.amount_kobo
  FROM charge c WHERE c.status = 'succeeded' AND NOT c.livemode AND finance.is_shown(c.account_id)
) k
CROSS JOIN LATERAL (
  SELECT count(*) AS entries FROM ledger_entry e
  WHERE (e.charge_id, e.account_id, e.livemode) = (k.id, k.account_id, k.livemode) AND e.event NOT IN ('excess', 'refunded', 'settled', 'explained')
) t
WHERE t.entries <> 1
UNION ALL
SELECT f.account_id, f.livemode, NULL, 'refunds', f.id, format('refund %s: %s with %s kobo, the books show %s kobo sent back', f.id, f.status, f.amount_kobo, coalesce(-sum(l.amount_kobo), 0))
FROM refund f
LEFT JOIN ledger_entry e ON (e.account_id, e.livemode, e.charge_id) = (f.account_id, f.livemode, f.charge_id) AND e.event = 'refunded'
LEFT JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id) AND l.ledger_account = 'clearing'
WHERE finance.is_shown(f.account_id)
GROUP BY f.account_id, f.livemode, f.id, f.status, f.amount_kobo
HAVING coalesce(-sum(l.amount_kobo), 0) <> CASE WHEN f.status = 'returned' THEN f.amount_kobo ELSE 0 END
UNION ALL
SELECT s.account_id, s.livemode, NULL, 'receivable', s.id, format('subscription %s: owes %s kobo by its bill, %s by the books', s.id,
  CASE WHEN s.dunning IS NULL THEN 0 ELSE (s.bill->>'amountKobo')::bigint END, coalesce(owed.kobo, 0))
FROM subscription s
LEFT JOIN (
  SELECT e.account_id, e.livemode, e.subscription_id, sum(l.amount_kobo) AS kobo
  FROM ledger_entry e JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
  WHERE l.ledger_account = 'receivable' AND e.subscription_id IS NOT NULL AND finance.is_shown(e.account_id)
  GROUP BY 1, 2, 3
) owed ON (owed.account_id, owed.livemode, owed.subscription_id) = (s.account_id, s.livemode, s.id)
WHERE finance.is_shown(s.account_id) AND coalesce(owed.kobo, 0) <> CASE WHEN s.dunning IS NULL THEN 0 ELSE (s.bill->>'amountKobo')::bigint END
UNION ALL
SELECT coalesce(s.account_id, b.account_id), coalesce(s.livemode, b.livemode), NULL, 'deferred', coalesce(s.account_id, b.account_id),
  format('account %s, %s: %s kobo are not recognised yet by the schedules, %s are deferred by the books', coalesce(s.account_id, b.account_id),
    CASE WHEN coalesce(s.livemode, b.livemode) THEN 'live' ELSE 'sandbox' END, coalesce(s.kobo, 0), coalesce(b.kobo, 0))
FROM (
  SELECT r.account_id, r.livemode, sum(r.amount_kobo - r.adjusted_kobo - r.moved_kobo - CASE WHEN r.end_on IS NULL OR least(k.posted_on, r.until_on - 1) < r.from_on THEN 0
    ELSE recognised_kobo(r.amount_kobo, r.start_on, r.end_on, least(k.posted_on, r.until_on - 1)) END) AS kobo
  FROM revenue_schedule r
  JOIN revenue_book k ON (k.account_id, k.livemode, k.id) = (r.account_id, r.livemode, coalesce(r.test_clock_id, 'wall'))
  WHERE finance.is_shown(r.account_id)
  GROUP BY 1, 2
) s
FULL JOIN (
  SELECT account_id, livemode, -sum(amount_kobo) AS kobo FROM ledger_line WHERE ledger_account = 'deferred_revenue' AND finance.is_shown(account_id) GROUP BY 1, 2
) b ON (b.account_id, b.livemode) = (s.account_id, s.livemode)
WHERE coalesce(s.kobo, 0) <> coalesce(b.kobo, 0)
  AND NOT EXISTS (SELECT 1 FROM deletion d WHERE (d.account_id, d.livemode) = (coalesce(s.account_id, b.account_id), coalesce(s.livemode, b.livemode)))
UNION ALL
SELECT coalesce(s.account_id, b.account_id), coalesce(s.livemode, b.livemode), NULL, 'recognised', coalesce(s.plan_id, b.plan_id),
  format('plan %s: the schedules recognise %s kobo by day, the books %s', coalesce(s.plan_id, b.plan_id), coalesce(s.kobo, 0), coalesce(b.kobo, 0))
FROM (
  SELECT r.account_id, r.livemode, r.plan_id, sum(recognised_kobo(r.amount_kobo, r.start_on, r.end_on, least(k.posted_on, r.until_on - 1))) AS kobo
  FROM revenue_schedule r
  JOIN revenue_book k ON (k.account_id, k.livemode, k.id) = (r.account_id, r.livemode, coalesce(r.test_clock_id, 'wall'))
  WHERE r.end_on IS NOT NULL AND least(k.posted_on, r.until_on - 1) >= r.from_on AND finance.is_shown(r.account_id)
  GROUP BY 1, 2, 3
) s
FULL JOIN (
  SELECT e.account_id, e.livemode, e.plan_id, sum(l.amount_kobo) AS kobo
  FROM ledger_entry e JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id) AND l.ledger_account = 'deferred_revenue'
  WHERE e.event = 'recognised' AND finance.is_shown(e.account_id)
  GROUP BY 1, 2, 3
) b ON (b.account_id, b.livemode, b.plan_id) = (s.account_id, s.livemode, s.plan_id)
WHERE coalesce(s.kobo, 0) <> coalesce(b.kobo, 0)
  AND NOT EXISTS (SELECT 1 FROM deletion d WHERE (d.account_id, d.livemode) = (coalesce(s.account_id, b.account_id), coalesce(s.livemode, b.livemode)))
UNION ALL
SELECT s.account_id, s.livemode, s.month, 'suspense', s.reference, format('%s kobo of %s are in suspense', s.amount_kobo, s.reference)
FROM finance.suspense s
UNION ALL
SELECT 'acct_service', true, NULL, 'invoices', f.merchant,
  format('account %s: owes %s kobo by its invoices, %s by the service''s own books', f.merchant, f.invoices_kobo, f.books_kobo)
FROM finance.fees_owed f
WHERE NOT f.has_moved AND f.invoices_kobo <> f.books_kobo AND finance.is_shown('acct_service')
UNION ALL
SELECT s.account_id, s.livemode, NULL, 'mrr', s.id, format('subscription %s: its movements sum to %s kobo a month, its terms give %s', s.id, coalesce(v.kobo, 0), t.kobo)
FROM subscription s
CROSS JOIN LATERAL (SELECT CASE WHEN s.status IN ('active', 'past_due') AND s.period_no >= 0 THEN monthly_kobo(s.billing_cycle, s.price_kobo * s.period_quantity) ELSE 0 END AS kobo) t
LEFT JOIN (SELECT account_id, livemode, subscription_id, sum(change_kobo) AS kobo FROM mrr_movement WHERE finance.is_shown(account_id) GROUP BY 1, 2, 3) v
  ON (v.account_id, v.livemode, v.subscription_id) = (s.account_id, s.livemode, s.id)
WHERE coalesce(v.kobo, 0) <> t.kobo AND finance.is_shown(s.account_id)
UNION ALL
SELECT coalesce(t.account_id, l.account_id), coalesce(t.livemode, l.livemode), NULL, 'totals', coalesce(t.ledger_account, l.ledger_account),
  format('%s of %s: %s kobo by the stored sums of closed months, %s by their lines', coalesce(t.ledger_account, l.ledger_account), coalesce(t.account_id, l.account_id), coalesce(t.kobo, 0), coalesce(l.kobo, 0))
FROM (SELECT account_id, livemode, ledger_account, sum(debit_kobo - credit_kobo) AS kobo FROM ledger_total WHERE finance.is_shown(account_id) GROUP BY 1, 2, 3) t
FULL JOIN (
  SELECT account_id, livemode, ledger_account, sum(amount_kobo) AS kobo FROM ledger_line
  WHERE livemode AND effective_on < (SELECT finance.month_of(max(month) + 31) FROM ledger_totalled) AND finance.is_shown(account_id) GROUP BY 1, 2, 3
) l ON (l.account_id, l.livemode, l.ledger_account) = (t.account_id, t.livemode, t.ledger_account)
WHERE coalesce(t.kobo, 0) <> coalesce(l.kobo, 0)
UNION ALL
SELECT coalesce(t.account_id, l.account_id), coalesce(t.livemode, l.livemode), NULL, 'totals', coalesce(t.measure, l.ledger_account),
  format('%s of %s: %s kobo by the totals of days, %s by their lines', coalesce(t.measure, l.ledger_account), coalesce(t.account_id, l.account_id), coalesce(t.kobo, 0), coalesce(l.kobo, 0))
FROM (
  SELECT account_id, livemode, measure, sum(kobo) AS kobo FROM (
    SELECT account_id, livemode, measure, debit_kobo - credit_kobo AS kobo FROM day_total
    UNION ALL SELECT account_id, livemode, measure, debit_kobo - credit_kobo FROM day_total_new
  ) d WHERE measure <> 'mrr' AND finance.is_shown(account_id) GROUP BY 1, 2, 3
) t
FULL JOIN (SELECT account_id, livemode, ledger_account, sum(amount_kobo) AS kobo FROM ledger_line WHERE finance.is_shown(account_id) GROUP BY 1, 2, 3) l
  ON (l.account_id, l.livemode, l.ledger_account) = (t.account_id, t.livemode, t.measure)
WHERE coalesce(t.kobo, 0) <> coalesce(l.kobo, 0)
  AND NOT EXISTS (SELECT 1 FROM deletion d WHERE (d.account_id, d.livemode) = (coalesce(t.account_id, l.account_id), coalesce(t.livemode, l.livemode)))
UNION ALL
SELECT coalesce(p.account_id, b.account_id), coalesce(p.livemode, b.livemode), NULL, 'deposits', coalesce(p.id, b.plan),
  format('instalment plan %s: deposits of %s kobo by its payments, %s by the books', coalesce(p.id, b.plan), coalesce(p.kobo, 0), coalesce(b.kobo, 0))
FROM (
  SELECT account_id, livemode, id, CASE WHEN status IN ('delivered', 'cancelled') THEN 0 ELSE paid_kobo + fees_paid_kobo END AS kobo
  FROM instalment_plan WHERE finance.is_shown(account_id)
) p
FULL JOIN (
  SELECT account_id, livemode, detail AS plan, -sum(amount_kobo) AS kobo FROM ledger_line WHERE ledger_account = 'buyer_deposits' AND finance.is_shown(account_id) GROUP BY 1, 2, 3
) b ON (b.account_id, b.livemode, b.plan) = (p.account_id, p.livemode, p.id)
WHERE coalesce(p.kobo, 0) <> coalesce(b.kobo, 0)
  AND NOT EXISTS (SELECT 1 FROM deletion d WHERE (d.account_id, d.livemode) = (coalesce(p.account_id, b.account_id), coalesce(p.livemode, b.livemode)))
) b
-- Leaves out moving accounts, complete or not, unless the session names the account.
WHERE NOT EXISTS (SELECT 1 FROM account_away w WHERE w.account_id = b.account_id AND w.account_id IS DISTINCT FROM nullif(current_setting('billing.account', true), ''));
COMMENT ON VIEW finance.breaches IS 'The breaches of the rules of the books, as cli ledger check lists them. Empty if the books are correct. A row with a month is about the entries or payments of that month. A row without a month is about the current state.';

CREATE VIEW finance.invariants AS
SELECT r.rule, r.meaning, count(b.rule) AS breaches FROM finance.rules r LEFT JOIN finance.breaches b ON b.rule = r.rule GROUP BY r.rule, r.meaning;
COMMENT ON VIEW finance.invariants IS 'Every rule of the books with the number of its breaches. All numbers are zero if the books are correct.';

CREATE VIEW finance.exceptions AS
SELECT account_id, livemode, month, rule AS kind, about, problem, NULL::timestamptz AS said_at FROM finance.breaches
UNION ALL
SELECT account_id, livemode, finance.month_of((said_at AT TIME ZONE 'UTC')::date), kind, charge, format('%s: %s kobo by the books, the rail says %s', charge, amount_kobo,
  CASE kind WHEN 'succeeded_after_failure' THEN 'it was paid after all' WHEN 'failed_after_success' THEN 'it failed' WHEN 'refund_failed' THEN 'its refund failed'
    ELSE concat_ws(' ', rail_amount_kobo || ' kobo', rail_currency, rail_reference) END), said_at
FROM finance.reconciliation_exceptions;
COMMENT ON VIEW finance.exceptions IS 'All problems to investigate: breaches of the rules (a succeeded payment without exactly one entry, an entry whose source does not exist, a balance in suspense, …), and contradictions of rails (finance.reconciliation_exceptions has their amounts). Empty if the books are correct. For one month only: WHERE month = ….';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA finance FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA finance TO finance_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA finance TO finance_reader;

-- finance_reader must not take advisory locks: only the service uses them. Revoking them from PUBLIC needs a superuser.
DO $$
DECLARE f regprocedure;
BEGIN
  FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^pg_(try_)?advisory_' LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I, billing_request', f, current_user);
  END LOOP;
EXCEPTION
  WHEN insufficient_privilege THEN RAISE NOTICE 'finance_reader can take advisory locks: docs/operating.md says what a superuser can do about that';
END $$;

-- finance_reader must not create temporary tables or large objects. Revoking large objects from PUBLIC needs a superuser.
DO $$
DECLARE f regprocedure;
BEGIN
  EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
  FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^(lo_|lowrite$)' LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
EXCEPTION
  WHEN insufficient_privilege THEN RAISE NOTICE 'finance_reader can create large objects: docs/operating.md says what a superuser can do about that';
END $$;
