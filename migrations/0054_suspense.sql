-- What a settlement leaves in suspense is explained once, for a reason; a month is closed over what is open in it for a reason too; and views
-- leave no month out.

ALTER TABLE ledger_entry ADD COLUMN reason text,
  ADD CONSTRAINT ledger_entry_reason_bounded CHECK (octet_length(reason) <= 2000),
  ADD CONSTRAINT ledger_entry_explained_for_a_reason CHECK (event <> 'explained' OR reason IS NOT NULL);
COMMENT ON COLUMN ledger_entry.reason IS 'Why it was booked by hand, in the words of the person who did; null: the service booked it.';

ALTER TABLE ledger_closing DROP CONSTRAINT ledger_closing_reopened_for_a_reason,
  ADD CONSTRAINT ledger_closing_reopened_for_a_reason CHECK (action = 'close' OR reason IS NOT NULL);
COMMENT ON COLUMN ledger_closing.reason IS 'Why it was opened again, or why it was closed over breaches and exceptions; null: nothing was open when it was closed.';
COMMENT ON VIEW finance.closings IS 'Which months were closed, and opened again; the newest row holds. The reason says why a month was opened again, or why it was closed with breaches or exceptions in it.';

CREATE OR REPLACE VIEW finance.general_ledger AS
SELECT l.account_id, l.livemode, l.effective_on, e.id AS entry, e.event, l.line_no, l.ledger_account, c.name, c.kind, l.detail,
  greatest(l.amount_kobo, 0) AS debit_kobo, greatest(-l.amount_kobo, 0) AS credit_kobo, l.amount_kobo,
  finance.naira(greatest(l.amount_kobo, 0)) AS debit_naira, finance.naira(greatest(-l.amount_kobo, 0)) AS credit_naira,
  e.customer_id AS customer, e.subscription_id AS subscription, e.bill_no, e.charge_id AS charge, e.plan_id AS plan, e.test_clock_id AS test_clock,
  e.occurred_on, e.corrects, e.reverses, e.posted_at, e.reason
FROM finance.accounts() AS a (id)
CROSS JOIN ledger_account c
JOIN ledger_line l ON (l.ledger_account, l.account_id) = (c.code, a.id)
JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id);

-- A reference's lines since its balance was last zero: of what was explained or paid out later there are none.
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
COMMENT ON VIEW finance.suspense IS 'What settlements left in suspense and is neither explained nor paid out yet, by reference, in the month of the settlement. Above zero (debit): the rail paid out less than it should; below zero: more. cli ledger explain ends it.';
GRANT SELECT ON finance.suspense TO finance_reader;

CREATE OR REPLACE VIEW finance.settlements AS
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
COMMENT ON VIEW finance.settlements IS 'What rails paid out, payment by payment, with their fees: from the files that cli ledger settle has read, and what cli ledger explain has added to the bank or the fees. The amount is the fee, the payout and what went into suspense (below zero: left it). Sum by settled_on or payout to match the bank''s statement. The month is the one in whose books it stands.';

CREATE OR REPLACE VIEW finance.deferred_revenue AS
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
-- Months in which nothing moved, from the end of one that has entries to the next: what is left does not change. In live none lies ahead of
-- today, where only the clocks of sandboxes are.
SELECT a.id, g.month::date, k.livemode, v.kobo, 0, 0, 0, 0, v.kobo, finance.naira(v.kobo), finance.naira(0), finance.naira(0), finance.naira(0), finance.naira(0), finance.naira(v.kobo)
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL (SELECT m.next_month AS since, lead(m.month) OVER (ORDER BY m.month) AS until FROM finance.months(a.id) m) q
CROSS JOIN (VALUES (true), (false)) AS k (livemode)
LEFT JOIN LATERAL finance.balances_before(a.id, 'deferred_revenue', q.since) b ON b.livemode = k.livemode
CROSS JOIN LATERAL (SELECT coalesce(b.credit_kobo - b.debit_kobo, 0) AS kobo) v
CROSS JOIN LATERAL generate_series(q.since::timestamp, q.until::timestamp - interval '1 month', interval '1 month') AS g (month)
WHERE q.until > q.since AND (NOT k.livemode OR g.month <= now() AT TIME ZONE 'UTC');
COMMENT ON VIEW finance.deferred_revenue IS 'How deferred revenue rolled forward, month by month from an account''s first to its newest: opening, plus billed in advance, less recognised day by day, less kept when service ended early, less written off, is closing.';

CREATE OR REPLACE VIEW finance.recognition AS
SELECT r.*, finance.naira(r.amount_kobo) AS amount_naira, finance.naira(r.recognised_kobo) AS recognised_naira, finance.naira(r.remaining_kobo) AS remaining_naira FROM (
SELECT s.account_id, s.livemode, s.subscription_id AS subscription, s.bill_no, s.part, s.customer_id AS customer, s.plan_id AS plan, d.day, finance.month_of(d.day) AS month,
  recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day) - CASE WHEN d.day > s.from_on THEN recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day - 1) ELSE 0 END AS amount_kobo,
  recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day) AS recognised_kobo, s.amount_kobo - recognised_kobo(s.amount_kobo, s.start_on, s.end_on, d.day) AS remaining_kobo,
  CASE WHEN d.day <= b.posted_on THEN 'booked' ELSE 'scheduled' END AS status,
  CASE WHEN d.day <= b.posted_on THEN (
    SELECT e.id FROM ledger_entry e
    -- The key's own collation, or its index is of no use.
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

CREATE OR REPLACE VIEW finance.breaches AS
SELECT * FROM (
SELECT e.account_id, e.livemode, m.month, v.rule, e.entry_id AS about,
  CASE v.rule
    WHEN 'lines_have_entries' THEN format('lines of entry %s: there is no such entry', e.entry_id)
    WHEN 'balanced' THEN format('entry %s: lines sum to %s kobo, %s of %s lines', e.entry_id, e.kobo, e.lines, e.line_count)
    WHEN 'dated' THEN format('entry %s is dated %s, its lines otherwise', e.entry_id, e.effective_on)
    WHEN 'charges' THEN format('entry %s (%s) takes %s kobo for charge %s, which is %s over %s', e.id, e.event, e.taken_kobo, e.charge_id, coalesce(c.status, 'succeeded'), coalesce(e.paid_kobo, c.amount_kobo))
    ELSE format('entry %s (%s) is about %s, which does not exist', e.id, e.event, coalesce(e.charge_id, e.subscription_id, e.plan_id))
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
  -- Most entries are about a payment of their month, and about its subscription, which it has by foreign key: these are read together
  -- (OFFSET 0), and only the others are looked up one by one.
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
SELECT e.account_id, e.livemode, NULL, 'balanced', e.id, format('entry %s: 0 of %s lines', e.id, e.line_count)
FROM ledger_entry e
LEFT JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id, l.line_no) = (e.account_id, e.livemode, e.id, 1)
WHERE l.line_no IS NULL AND finance.is_shown(e.account_id)
UNION ALL
SELECT k.account_id, k.livemode, k.month, 'charges', k.id, format('charge %s: succeeded over %s kobo, %s entries take it', k.id, k.amount_kobo, t.entries)
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
SELECT f.account_id, f.livemode, NULL, 'refunds', f.id, format('refund %s: %s over %s kobo, the books show %s sent back', f.id, f.status, f.amount_kobo, coalesce(-sum(l.amount_kobo), 0))
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
  format('account %s, %s: %s kobo are left to serve by the schedules, %s are deferred by the books', coalesce(s.account_id, b.account_id),
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
  format('plan %s: the schedules recognise %s kobo by their days, %s are booked', coalesce(s.plan_id, b.plan_id), coalesce(s.kobo, 0), coalesce(b.kobo, 0))
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
SELECT s.account_id, s.livemode, NULL, 'mrr', s.id, format('subscription %s: its movements come to %s kobo a month, its terms to %s', s.id, coalesce(v.kobo, 0), t.kobo)
FROM subscription s
CROSS JOIN LATERAL (SELECT CASE WHEN s.status IN ('active', 'past_due') AND s.period_no >= 0 THEN monthly_kobo(s.billing_cycle, s.price_kobo * s.period_quantity) ELSE 0 END AS kobo) t
LEFT JOIN (SELECT account_id, livemode, subscription_id, sum(change_kobo) AS kobo FROM mrr_movement WHERE finance.is_shown(account_id) GROUP BY 1, 2, 3) v
  ON (v.account_id, v.livemode, v.subscription_id) = (s.account_id, s.livemode, s.id)
WHERE coalesce(v.kobo, 0) <> t.kobo AND finance.is_shown(s.account_id)
UNION ALL
SELECT coalesce(t.account_id, l.account_id), coalesce(t.livemode, l.livemode), NULL, 'totals', coalesce(t.ledger_account, l.ledger_account),
  format('%s of %s: %s kobo by the sums of closed months, %s by their lines', coalesce(t.ledger_account, l.ledger_account), coalesce(t.account_id, l.account_id), coalesce(t.kobo, 0), coalesce(l.kobo, 0))
FROM (SELECT account_id, livemode, ledger_account, sum(debit_kobo - credit_kobo) AS kobo FROM ledger_total WHERE finance.is_shown(account_id) GROUP BY 1, 2, 3) t
FULL JOIN (
  SELECT account_id, livemode, ledger_account, sum(amount_kobo) AS kobo FROM ledger_line
  WHERE livemode AND effective_on < (SELECT finance.month_of(max(month) + 31) FROM ledger_totalled) AND finance.is_shown(account_id) GROUP BY 1, 2, 3
) l ON (l.account_id, l.livemode, l.ledger_account) = (t.account_id, t.livemode, t.ledger_account)
WHERE coalesce(t.kobo, 0) <> coalesce(l.kobo, 0)
UNION ALL
SELECT coalesce(p.account_id, b.account_id), coalesce(p.livemode, b.livemode), NULL, 'deposits', coalesce(p.id, b.plan),
  format('instalment plan %s: %s kobo are held by its payments, %s by the books', coalesce(p.id, b.plan), coalesce(p.kobo, 0), coalesce(b.kobo, 0))
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
-- What is on its way is nobody's here, whole or not, but for whoever asks for it by name.
WHERE NOT EXISTS (SELECT 1 FROM account_away w WHERE w.account_id = b.account_id AND w.account_id IS DISTINCT FROM nullif(current_setting('billing.account', true), ''));
