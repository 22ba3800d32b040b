-- Rails that take back what they said before are heard, and what is taken to save a card goes back however late it is.

ALTER TABLE rail_callback ADD COLUMN denies boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN rail_callback.denies IS 'Whether one of them says that it was not paid, or not any more: the rail is asked about one that was paid, too.';

CREATE OR REPLACE VIEW finance.card_verifications AS
SELECT c.account_id, c.account_id AS account, c.livemode, c.customer_id AS customer, c.rail, c.id AS reference, c.amount_kobo,
  round(c.amount_kobo / 100.0, 2) AS amount_naira,
  CASE f.status WHEN 'returned' THEN 'returned' WHEN 'failed' THEN 'refund_failed' ELSE CASE WHEN t.taken_at IS NULL THEN c.status ELSE 'taken' END END AS status,
  t.taken_at, f.returned_at
FROM charge c
-- What had been given up may have been paid after all.
CROSS JOIN LATERAL (
  SELECT coalesce(c.paid_at, (SELECT min((x.word->>'at')::timestamptz) FROM jsonb_array_elements(c.contradictions) AS x (word) WHERE x.word->>'answer' = 'succeeded')) AS taken_at
) t
LEFT JOIN refund f ON (f.charge_id, f.account_id, f.livemode) = (c.id, c.account_id, c.livemode)
WHERE c.purpose = 'verification' AND finance.is_shown(c.account_id);

CREATE OR REPLACE VIEW finance.reconciliation_exceptions AS
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
-- What is sent back may have been settled either way.
SELECT f.account_id, f.livemode, f.charge_id, f.rail, f.customer_id, NULL, 'refund_failed', c.status, NULL, NULL, f.requested_at,
  f.amount_kobo, round(f.amount_kobo / 100.0, 2), NULL, NULL, NULL
FROM refund f JOIN charge c ON (c.account_id, c.livemode, c.id) = (f.account_id, f.livemode, f.charge_id)
WHERE f.status = 'failed' AND finance.is_shown(f.account_id);
