/** Tests finance's access: the role, and views that agree with each other and with the API. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data, subscribe } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database, server, accountId } = useInstance()
useWhole(database)

/** Runs as a finance user, for one account or for all of them (null). */
const reading = <A, E>(
  account: string | null,
  program: (sql: SqlClient.SqlClient) => Effect.Effect<A, E, SqlClient.SqlClient>,
) =>
  database.run((sql) =>
    sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`SELECT set_config('role', 'finance_reader', true)`
        if (account !== null) yield* sql`SELECT set_config('billing.account', ${account}, true)`
        return yield* program(sql)
      }),
    ),
  )

interface Named {
  readonly name: string
}

describe("the role finance_reader", () => {
  it("reads every view of the schema, each commented, and nothing else", async () => {
    const views = await database.run(
      (sql) => sql<Named & { comment: string | null }>`
        SELECT c.relname AS name, obj_description(c.oid) AS comment FROM pg_class c
        WHERE c.relnamespace = 'finance'::regnamespace AND c.relkind = 'v' ORDER BY 1`,
    )
    expect(views.length).toBeGreaterThan(15)
    for (const { name, comment } of views) {
      expect(comment, name).not.toBeNull()
      await reading(null, (sql) => sql`SELECT * FROM ${sql.literal(`finance.${name}`)} LIMIT 1`)
    }
    await reading(null, (sql) => sql`SELECT * FROM finance.trial_balance_at('2025-01-31')`)
    const tables = await database.run(
      (sql) => sql<Named>`
        SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v', 'p', 'm') AND n.nspname NOT IN ('finance', 'pg_catalog', 'information_schema', 'pg_toast')
          AND has_schema_privilege('finance_reader', n.oid, 'USAGE')`,
    )
    expect(tables).toEqual([])
    for (const statement of [
      "SELECT * FROM charge",
      "SELECT * FROM public.ledger_line",
      "CREATE TABLE finance.mine (n int)",
      "SELECT public.enter_sandbox('x')",
      "SELECT pg_advisory_xact_lock(7301010, 0)",
      "SELECT pg_try_advisory_lock_shared(1)",
      "SELECT lo_creat(-1)",
    ]) {
      const refused = await reading(null, (sql) => sql.unsafe(statement).unprepared).catch((error) => error)
      expect(refused.reason?.cause?.code, statement).toMatch(/^(42501|42P01)$/)
    }
  })

  it("sees only the account that it names", async () => {
    const { clock } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    await advance(api, clock, "2025-01-10T00:00:00Z")
    const accounts = (named: string | null) =>
      reading(named, (sql) => sql<{ account_id: string }>`SELECT DISTINCT account_id FROM finance.general_ledger`)
    expect((await accounts(accountId())).map(({ account_id }) => account_id)).toEqual([accountId()])
    expect(await accounts("acct_other")).toEqual([])
    expect((await accounts(null)).length).toBeGreaterThanOrEqual(1)
  })
})

/** A year of an account: plans, failures, pauses, changes. */
const year = async () => {
  const clock = await createClock(api, "2025-01-05T00:00:00Z")
  const gold = await createPlan(api, {
    name: "Gold",
    amount: 300_000,
    pause_enabled: true,
    pro_rate: true,
    overage_per_unit: 100,
  })
  const weekly = await createPlan(api, { name: "Weekly", amount: 50_000, billing_cycle: "weekly" })
  const failing = await createPlan(api, {
    name: "Failing",
    amount: 90_000,
    retry_logic: { enabled: true, max_attempts: 1, retry_intervals_days: [2], cancel_after_days_unpaid: 20 },
  })
  const buy = async (plan: string, payment_method: string, quantity = 1) => {
    const customer = await createCustomer(api, { test_clock: clock })
    return data(await api.post("/subscriptions", { customer, plan, payment_method, quantity }), 201).id as string
  }
  const [first, second] = [await buy(gold, "pm_test_success"), await buy(gold, "pm_test_success", 2)]
  await buy(weekly, "pm_test_success")
  await buy(failing, "pm_test_success_then_insufficient_funds")
  const recovering = {
    amount: 90_000,
    trial_days: 1,
    retry_logic: { enabled: true, max_attempts: 1, retry_intervals_days: [2] },
  }
  await buy(await createPlan(api, { name: "Recovering", ...recovering }), "pm_test_succeeds_on_attempt_2")
  await advance(api, clock, "2025-02-10T00:00:00Z")
  data(await api.post(`/subscriptions/${first}/unit-records`, { quantity: 7 }), 201)
  data(await api.post(`/subscriptions/${first}/pause`))
  data(await api.patch(`/subscriptions/${second}`, { quantity: 3 }))
  await advance(api, clock, "2025-03-20T00:00:00Z")
  data(await api.post(`/subscriptions/${first}/resume`))
  await advance(api, clock, "2025-05-02T00:00:00Z")
  data(await api.post(`/subscriptions/${second}/cancel`))
  await advance(api, clock, "2025-06-15T00:00:00Z")
  return { clock, first, second }
}

type Row = Readonly<Record<string, number & string & boolean>>

describe("the views", () => {
  it("agree with each other, month by month", async () => {
    await year()
    const rows = (text: string) => reading(accountId(), (sql) => sql.unsafe<Row>(text))
    const sandbox = "WHERE NOT livemode"
    const mrr = await rows(`SELECT * FROM finance.mrr_movements ${sandbox} ORDER BY month`)
    let before = 0
    for (const row of mrr) {
      expect(row.opening_kobo).toBe(before)
      const moved =
        row.new_kobo! + row.expansion_kobo! + row.contraction_kobo! + row.churn_kobo! + row.reactivation_kobo!
      expect(row.opening_kobo! + moved).toBe(row.closing_kobo)
      before = row.closing_kobo!
    }
    for (const kind of ["new", "expansion", "churn", "reactivation"])
      expect(
        mrr.some((row) => row[`${kind}_kobo`] !== 0),
        kind,
      ).toBe(true)

    const deferred = await rows(`SELECT * FROM finance.deferred_revenue ${sandbox} ORDER BY month`)
    before = 0
    for (const row of deferred) {
      expect(row.opening_kobo).toBe(before)
      before = row.closing_kobo!
    }
    const balances = new Map(
      (await rows(`SELECT * FROM finance.trial_balance ${sandbox}`)).map((row) => [
        row.ledger_account,
        row.balance_kobo!,
      ]),
    )
    expect([...balances.values()].reduce((a, b) => a + b, 0)).toBe(0)
    expect(before).toBe(-balances.get("deferred_revenue" as never)!)
    const at = await rows(
      `SELECT sum(balance_kobo)::bigint AS kobo FROM finance.trial_balance_at('2025-03-31') ${sandbox} AND ledger_account = 'deferred_revenue'`,
    )
    expect(-at[0]!.kobo!).toBe(
      deferred.find(
        ({ month }) =>
          String(month).startsWith("2025-03") || new Date(month as never).toISOString().startsWith("2025-03"),
      )!.closing_kobo,
    )

    const [revenue] = await rows(
      `SELECT sum(revenue_kobo)::bigint AS kobo, sum(usage_kobo)::bigint AS usage FROM finance.revenue_by_plan ${sandbox}`,
    )
    const earned = ["subscription_revenue", "usage_revenue", "one_off_revenue"].reduce(
      (sum, code) => sum - (balances.get(code as never) ?? 0),
      0,
    )
    expect(revenue!.kobo).toBe(earned)
    expect(revenue!.usage).toBe(700)

    const [owed] = await rows(
      `SELECT coalesce(sum(amount_kobo), 0)::bigint AS kobo FROM finance.receivables_ageing ${sandbox}`,
    )
    expect(owed!.kobo).toBe(balances.get("receivable" as never) ?? 0)
    const dunning = await rows(`SELECT * FROM finance.dunning ${sandbox} ORDER BY month`)
    for (const row of dunning) {
      expect(row.recovered! + row.written_off! + row.open!).toBe(row.failed)
      expect(row.recovered_kobo! + row.written_off_kobo! + row.open_kobo!).toBe(row.failed_kobo)
    }
    expect(dunning.reduce((sum, row) => sum + row.recovered_by_retry_1!, 0)).toBeGreaterThan(0)
    expect(dunning.reduce((sum, row) => sum + row.written_off!, 0)).toBeGreaterThan(0)

    const [clearing] = await rows(`SELECT sum(balance_kobo)::bigint AS kobo FROM finance.clearing ${sandbox}`)
    expect(clearing!.kobo).toBe(balances.get("clearing" as never))
    const months = deferred.map(({ month }) => new Date(month as never).toISOString().slice(0, 7))
    expect(months).toEqual(["2025-01", "2025-02", "2025-03", "2025-04", "2025-05", "2025-06"])
    const days = await rows(`SELECT * FROM finance.recognition ${sandbox}`)
    for (const [kobo, naira] of [
      ["amount_kobo", "amount_naira"],
      ["recognised_kobo", "recognised_naira"],
      ["remaining_kobo", "remaining_naira"],
    ] as const)
      for (const row of days) expect(row[naira] === null ? null : Math.round(Number(row[naira]) * 100)).toBe(row[kobo])

    const [recognised] = await rows(
      `SELECT sum(amount_kobo)::bigint AS kobo FROM finance.recognition ${sandbox} AND status = 'booked'`,
    )
    expect(recognised!.kobo).toBe(-balances.get("subscription_revenue" as never)!)
    const parts = await rows(`
      SELECT entry, sum(amount_kobo)::bigint AS kobo, (SELECT sum(debit_kobo) FROM finance.general_ledger g WHERE g.entry = r.entry)::bigint AS booked
      FROM finance.recognition r ${sandbox} AND part IS NOT NULL AND status = 'booked' GROUP BY entry`)
    expect(parts.length).toBeGreaterThan(100)
    for (const { entry, kobo, booked } of parts) expect([entry, kobo]).toEqual([entry, booked])

    expect(await rows("SELECT * FROM finance.exceptions")).toEqual([])
    const invariants = await rows("SELECT rule, breaches FROM finance.invariants")
    expect(invariants.length).toBeGreaterThan(10)
    expect(invariants.filter(({ breaches }) => breaches !== 0)).toEqual([])
  })

  it("age debts by the customer's own clock", async () => {
    const { clock, id, customer } = await subscribe(
      api,
      "2025-01-01T00:00:00Z",
      "pm_test_success_then_insufficient_funds",
      {
        retry_logic: { enabled: false, escalation_on_failure: "none", cancel_after_days_unpaid: null },
      },
    )
    const ages = async (day: string) => {
      await advance(api, clock, `${day}T00:00:00Z`)
      return reading(
        accountId(),
        (sql) =>
          sql`SELECT days_overdue, bucket, amount_kobo FROM finance.receivables_ageing WHERE subscription = ${id} AND customer = ${customer}`,
      )
    }
    expect(await ages("2025-02-02")).toEqual([{ days_overdue: 1, bucket: "0-30", amount_kobo: 500_000 }])
    expect(await ages("2025-03-10")).toEqual([{ days_overdue: 37, bucket: "31-60", amount_kobo: 500_000 }])
    expect(await ages("2025-06-10")).toEqual([{ days_overdue: 129, bucket: "90+", amount_kobo: 500_000 }])
  })

  it("include each month of deferred revenue, however far apart a sandbox's clocks are, and skip empty years", async () => {
    const { account, keys } = await database.run(() => createAccount({ businessName: "Far" }))
    const far = createApi(server().origin, keys.sk_test)
    for (const year of ["1970", "8990"]) await subscribe(far, `${year}-02-01T00:00:00Z`, "pm_test_success")
    const months = await reading(
      account.id,
      (sql) => sql`SELECT to_char(month, 'YYYY-MM') AS month FROM finance.months(${account.id}) ORDER BY 1`,
    )
    expect(months).toEqual([{ month: "1970-02" }, { month: "8990-02" }])
    const deferred = await reading(
      account.id,
      (sql) => sql<{
        month: string
        opening_kobo: number
        billed_kobo: number
        closing_kobo: number
        closing_naira: string
      }>`
        SELECT to_char(month, 'YYYY-MM') AS month, opening_kobo, billed_kobo, closing_kobo, closing_naira::text AS closing_naira
        FROM finance.deferred_revenue WHERE NOT livemode ORDER BY month`,
    )
    const [first, last] = [deferred[0]!, deferred.at(-1)!]
    expect(deferred).toHaveLength((8990 - 1970) * 12 + 1)
    expect(first).toMatchObject({ month: "1970-02", opening_kobo: 0, billed_kobo: 500_000, closing_kobo: 500_000 })
    expect(last).toMatchObject({ month: "8990-02", opening_kobo: 500_000, closing_kobo: 1_000_000 })
    const between = { opening_kobo: 500_000, billed_kobo: 0, closing_kobo: 500_000, closing_naira: "5000.00" }
    for (const { month, ...one } of deferred.slice(1, -1)) expect(one, month).toEqual(between)
    // In live, no entry is later than today.
    const [live] = await reading(
      account.id,
      (sql) => sql<{ rows: number }>`SELECT count(*) AS rows FROM finance.deferred_revenue WHERE livemode`,
    )
    expect(live!.rows).toBeLessThan(100 * 12)
  })

  it("list breaches of the rules", async () => {
    const found = await database.run((sql) =>
      sql
        .withTransaction(
          Effect.gen(function* () {
            yield* sql`UPDATE mrr_movement SET change_kobo = change_kobo + 1`
            yield* sql`UPDATE revenue_schedule SET moved_kobo = moved_kobo + 1`
            yield* sql`
              UPDATE charge SET status = 'failed', state = 'failed', paid_at = NULL, failure_code = 'do_not_honor'
              WHERE account_id = ${accountId()} AND status = 'succeeded'`
            const breaches = yield* sql<{ rule: string }>`SELECT DISTINCT rule FROM finance.breaches ORDER BY rule`
            return yield* Effect.fail({ breaches })
          }),
        )
        .pipe(
          Effect.catchIf(
            (error): error is { breaches: ReadonlyArray<{ rule: string }> } => "breaches" in error,
            Effect.succeed,
          ),
        ),
    )
    expect(found).toEqual({ breaches: [{ rule: "charges" }, { rule: "deferred" }, { rule: "mrr" }] })
  })
})
