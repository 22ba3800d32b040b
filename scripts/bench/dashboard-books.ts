/** The books of the account that the benchmark of the dashboard fills: three years of days, and the entries of the newest month. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const DAYS = 1_100

/** The moves of a day: ledger account, rule, debit and credit of one bill, and in how many bills of a day it happens once. */
const MOVES = `(VALUES
  ('clearing', 'paid', 500000, 0, 1), ('deferred_revenue', 'paid', 0, 465116, 1), ('output_vat', 'paid', 0, 34884, 1),
  ('receivable', 'owed', 500000, 0, 30), ('deferred_revenue', 'owed', 0, 465116, 30), ('output_vat', 'owed', 0, 34884, 30),
  ('clearing', 'overdue_paid', 500000, 0, 40), ('receivable', 'overdue_paid', 0, 500000, 40),
  ('receivable', 'written_off', 0, 500000, 200), ('deferred_revenue', 'written_off', 465116, 0, 200), ('output_vat', 'written_off', 34884, 0, 200),
  ('deferred_revenue', 'recognised', 465116, 0, 1), ('subscription_revenue', 'recognised', 0, 465116, 1),
  ('deferred_revenue', 'service_ended', 465116, 0, 50), ('subscription_revenue', 'service_ended', 0, 465116, 50),
  ('clearing', 'refund_due', 500000, 0, 300), ('refunds_payable', 'refund_due', 0, 500000, 300),
  ('refunds_payable', 'refunded', 500000, 0, 300), ('clearing', 'refunded', 0, 500000, 300),
  ('bank', 'settled', 492500, 0, 1), ('rail_fees', 'settled', 7500, 0, 1), ('clearing', 'settled', 0, 500000, 1),
  ('mrr', 'new', 500000, 0, 20), ('mrr', 'churn', 0, 500000, 30), ('mrr', 'expansion', 500000, 0, 60), ('mrr', 'contraction', 0, 500000, 90)
) AS m (measure, event, debit, credit, one_in)`

/** Inserts the totals of {@link DAYS} days, and the entries of the bills of the newest month that are paid. */
export const seedBooks = Effect.fnUntraced(function* (account: string, month: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO day_total (account_id, livemode, measure, event, day, debit_kobo, credit_kobo, count)
    SELECT ${account}, true, m.measure, m.event, current_date - d, m.debit * b.moves, m.credit * b.moves, b.moves
    FROM ${sql.literal(MOVES)} CROSS JOIN generate_series(0, ${DAYS}::int) d
    CROSS JOIN LATERAL (SELECT 1 + (SELECT count(*) FROM subscription WHERE account_id = ${account}) / 30 / m.one_in AS moves) b`
  const paid = sql`charge c JOIN subscription s ON (s.account_id, s.livemode, s.id) = (c.account_id, c.livemode, c.subscription_id)
    WHERE c.account_id = ${account} AND c.bill_no = ${month}::int AND c.status = 'succeeded'`
  yield* sql`
    INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, customer_id, subscription_id, charge_id, plan_id, bill_no, occurred_on, effective_on, line_count)
    SELECT c.account_id, true, 'le_' || right(c.id, -4), 'paid', 'paid:' || c.id, c.customer_id, c.subscription_id, c.id, s.plan_id, c.bill_no, c.paid_at::date, c.paid_at::date, 3 FROM ${paid}`
  yield* sql`
    INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, detail, currency, amount_kobo, effective_on)
    SELECT e.account_id, true, e.id, l.no, l.ledger_account, l.detail, 'NGN', l.kobo, e.effective_on FROM ledger_entry e
    CROSS JOIN (VALUES (1, 'clearing', 'paystack', 500000), (2, 'deferred_revenue', NULL, -465116), (3, 'output_vat', NULL, -34884)) l (no, ledger_account, detail, kobo)
    WHERE e.account_id = ${account}`
  yield* sql`INSERT INTO revenue_book (account_id, livemode, id, closed_on, posted_on) VALUES (${account}, true, 'wall', current_date - 1, current_date - 1)`
})
