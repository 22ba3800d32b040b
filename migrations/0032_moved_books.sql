-- Books of accounts that move between cells: what is here of one that is on its way is shown by name only, and what a merchant owes for the
-- service is compared over all the cells that it has lived in (docs/scaling.md).

CREATE VIEW account_away AS SELECT account_id FROM account_move WHERE state IN ('left', 'arriving', 'withdrawn');
COMMENT ON VIEW account_away IS 'Accounts that are on their way between this cell and another and do not live here: their rows, of which some may be missing, are nobody''s.';

CREATE OR REPLACE FUNCTION finance.accounts() RETURNS SETOF text LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1 SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE wanted text := nullif(current_setting('billing.account', true), '');
BEGIN
  IF wanted IS NOT NULL THEN RETURN NEXT wanted; ELSE RETURN QUERY SELECT a.id FROM account a WHERE NOT EXISTS (SELECT 1 FROM account_away w WHERE w.account_id = a.id); END IF;
END $$;
COMMENT ON FUNCTION finance.accounts IS 'The account that billing.account names; all that live in this cell where it is not set.';

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
COMMENT ON VIEW finance.fees_owed IS 'What merchants owe for the service, by their invoices and by the service''s own books. Of one that has moved between cells its invoices are where it lives, and what was booked is where it was: the two are the same over all its cells.';
COMMENT ON COLUMN finance.fees_owed.has_moved IS 'Whether it has lived in another cell, or lives there now.';

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
  WHERE (e.charge_id, e.account_id, e.livemode) = (k.id, k.account_id, k.livemode) AND e.event NOT IN ('excess', 'refunded', 'settled')
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
SELECT l.account_id, l.livemode, NULL, 'suspense', coalesce(e.charge_id, e.id), format('%s kobo of %s are in suspense', -sum(l.amount_kobo), coalesce(e.charge_id, e.id))
FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
WHERE l.ledger_account = 'suspense' AND finance.is_shown(l.account_id)
GROUP BY l.account_id, l.livemode, coalesce(e.charge_id, e.id) HAVING sum(l.amount_kobo) <> 0
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

GRANT SELECT ON finance.fees_owed TO finance_reader;
