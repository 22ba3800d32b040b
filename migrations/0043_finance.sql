-- What finance reads costs as much as there is of it, and whoever reads it leaves nothing behind.

-- The months of an account are found once, not for each of its payments: behind OFFSET 0 nothing of them is joined to lines before they are there.
CREATE OR REPLACE VIEW finance.clearing AS
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
  -- Its own line is there already: only what else was booked about the payment is looked up.
  SELECT (l.amount_kobo + coalesce(sum(x.amount_kobo) FILTER (WHERE x.amount_kobo > 0), 0))::bigint AS taken_kobo,
    coalesce(-sum(x.amount_kobo) FILTER (WHERE e.event = 'refunded'), 0)::bigint AS returned_kobo,
    coalesce(-sum(x.amount_kobo) FILTER (WHERE e.event = 'settled'), 0)::bigint AS settled_kobo
  FROM ledger_entry e JOIN ledger_line x ON (x.account_id, x.livemode, x.entry_id) = (e.account_id, e.livemode, e.id) AND x.ledger_account = 'clearing'
  WHERE (e.charge_id, e.account_id, e.livemode) = (t.charge_id, t.account_id, t.livemode) AND e.id <> t.id
) sums;

-- A reader makes no tables, nor large objects, of its own. Taking the latter from everybody takes a superuser.
DO $$
DECLARE f regprocedure;
BEGIN
  EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
  FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^(lo_|lowrite$)' LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
EXCEPTION
  WHEN insufficient_privilege THEN RAISE NOTICE 'large objects are open to finance_reader: docs/operating.md says what a superuser can do about that';
END $$;
