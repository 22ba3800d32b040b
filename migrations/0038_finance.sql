-- Finance's views say what a statement of the bank, of a rail or of a buyer's deposit says.

-- By what the entry is made of, since a payout may come to nothing, its fee or a difference alone; on the day of the bank's statement,
-- where the books of its month were closed by then too.
CREATE OR REPLACE VIEW finance.settlements AS
SELECT e.account_id, e.livemode, b.month, e.occurred_on AS settled_on, max(l.detail) FILTER (WHERE l.ledger_account = 'bank') AS payout,
  coalesce(max(l.detail) FILTER (WHERE l.ledger_account = 'clearing'), max(l.detail) FILTER (WHERE l.ledger_account <> 'bank')) AS rail, e.charge_id AS reference,
  coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'clearing'), 0)::bigint AS amount_kobo,
  coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'rail_fees'), 0)::bigint AS fee_kobo,
  coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'bank'), 0)::bigint AS paid_out_kobo,
  finance.naira(coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'rail_fees'), 0)) AS fee_naira,
  finance.naira(coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'bank'), 0)) AS paid_out_naira
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL (
  SELECT DISTINCT l.account_id, l.livemode, l.entry_id, m.month
  FROM finance.months(a.id) m
  JOIN ledger_line l ON l.ledger_account IN ('bank', 'rail_fees', 'suspense') AND l.account_id = a.id AND l.effective_on >= m.month AND l.effective_on < m.next_month
) b
JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (b.account_id, b.livemode, b.entry_id) AND e.event = 'settled'
JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
GROUP BY e.account_id, e.livemode, b.month, e.id, e.occurred_on, e.charge_id;
COMMENT ON VIEW finance.settlements IS 'What rails paid out, payment by payment, with their fees: from the files that cli ledger settle has read. Sum by settled_on or payout to match the bank''s statement. The month is the one in whose books it stands.';

CREATE OR REPLACE VIEW finance.deposits AS
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
COMMENT ON VIEW finance.deposits IS 'What buyers paid in instalments, by instalment plan: for goods that are still to be delivered (balance), delivered, or cancelled (what goes back, and the fees that are kept).';

CREATE OR REPLACE VIEW finance.refunds_owed AS
SELECT a.id AS account_id, o.livemode, o.charge, o.customer, o.why, o.owed_since, o.amount_kobo, finance.naira(o.amount_kobo) AS amount_naira, f.status AS refund, f.failure_message
FROM finance.accounts() AS a (id)
CROSS JOIN LATERAL (
  SELECT l.livemode, e.charge_id AS charge, max(e.customer_id) AS customer, string_agg(DISTINCT e.event, ', ') FILTER (WHERE l.amount_kobo < 0) AS why,
    min(e.effective_on) AS owed_since, -sum(l.amount_kobo)::bigint AS amount_kobo
  FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
  WHERE l.account_id = a.id AND l.ledger_account = 'refunds_payable'
  -- What is owed of a cancelled instalment plan belongs to no single charge.
  GROUP BY l.livemode, e.charge_id, CASE WHEN e.charge_id IS NULL THEN e.idempotency_key END HAVING sum(l.amount_kobo) <> 0
) o
LEFT JOIN refund f ON (f.charge_id, f.account_id, f.livemode) = (o.charge, a.id, o.livemode);
COMMENT ON VIEW finance.refunds_owed IS 'Money that has to go back and has not yet, by charge: why (all reasons, where there are several), since when, and how the rail''s refund stands where one was asked for.';

-- Units of a trial are free (decision E1).
CREATE OR REPLACE VIEW finance.unbilled_units AS
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
COMMENT ON VIEW finance.unbilled_units IS 'Units reported and not billed: pending until the next renewal, unbilled for good where the subscription was cancelled first. Amounts at the plan''s present price. Those of trials are free and not among them.';
