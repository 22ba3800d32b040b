/** Tests that one tenant's lists read no rows of others: each filter uses an index, with a request's role. */
import { Effect, Layer, ManagedRuntime, type Schema } from "effect"
import { SqlClient } from "effect/sql"
import { CurrentTransformer } from "effect/sql/Statement"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { endpoints } from "../../src/app/api.ts"
import { pageUrlsLayer } from "../../src/app/pageUrls.ts"
import type { Json } from "../../src/base/json.ts"
import { CheckoutLinks } from "../../src/buying/checkout/CheckoutLinks.ts"
import { InstalmentLinks } from "../../src/buying/instalment/InstalmentLinks.ts"
import { ProductViews } from "../../src/buying/instalment/ProductViews.ts"
import { poolLayer } from "../../src/db/database.ts"
import { TenantDatabase } from "../../src/db/TenantDatabase.ts"
import type { Tenant } from "../../src/db/tenant.ts"
import type { Page } from "../../src/http/Endpoint.ts"
import { pageFields } from "../../src/http/lists.ts"
import { Origin } from "../../src/http/Origin.ts"
import { InvoiceLinks } from "../../src/merchants/invoice/InvoiceLinks.ts"
import { Nudging } from "../../src/outbound/nudge/Nudging.ts"
import { SharedSecrets } from "../../src/security/secret/SharedSecrets.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()

const services = () =>
  Layer.mergeAll(TenantDatabase.layer(database.url()), CheckoutLinks.layer, InvoiceLinks.layer).pipe(
    Layer.provideMerge(pageUrlsLayer.pipe(Layer.provide(Layer.merge(CheckoutLinks.layer, InstalmentLinks.layer)))),
    Layer.provideMerge(Layer.merge(Nudging.layer(null), ProductViews.layer)),
    Layer.provideMerge(Origin.layer("http://localhost")),
    Layer.provideMerge(SharedSecrets.asTheyAre),
    Layer.provideMerge(Layer.merge(poolLayer(database.url(), 4), Vault.layer(KEYS))),
  )
type Services = Layer.Success<ReturnType<typeof services>>

let runtime: ManagedRuntime.ManagedRuntime<Services, unknown>
beforeAll(() => {
  runtime = ManagedRuntime.make(services())
})
afterAll(() => runtime.dispose())

const ACCOUNT = "acct_mine"
/** Rows of each kind for each of two accounts: more than a range of instants scans by ID. */
const ROWS = 2_400
const idOf = (prefix: string, n: number) => `${prefix}_${String(n).padStart(26, "0")}`
const HOUR_MS = 3_600_000
const START = Date.UTC(2020, 0, 1)
/** The first half of the events is of clocks at many times. The others are in order. */
const createdAt = (n: number) => START + (n <= ROWS / 2 ? (n * 977) % ROWS : n) * HOUR_MS

/** Two accounts, each with ROWS of everything that is listed. */
const seed = (sql: SqlClient.SqlClient) =>
  Effect.forEach(
    [ACCOUNT, "acct_other"],
    Effect.fnUntraced(function* (account) {
      const each = sql`FROM generate_series(1, ${ROWS}::int) n`
      const id = (prefix: string) => sql`${`${prefix}_`} || lpad(n::text, 26, '0')`
      const mine = sql`${account}::text, false`
      const cycle = sql.literal("'2025-01-01'::timestamptz, '2025-02-01'::timestamptz")
      const at = sql.literal("'2025-01-01'::timestamptz")
      const ofClock = sql`CASE WHEN n % 40 = 0 THEN ${idOf("clock", 7)}::text END`
      yield* sql`INSERT INTO account (id, business_name, vertical, created_at) VALUES (${account}, 'A', 'generic', '2020-01-01')`
      yield* sql`
        INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, status, created_at, updated_at)
        SELECT ${mine}, ${id("plan")}, 'P', 5000, 'NGN', 'monthly', 0, false, true, '{}', '{}', '{}', '{}', CASE WHEN n % 40 = 0 THEN 'archived' ELSE 'active' END, now(), now() ${each}`
      yield* sql`
        INSERT INTO test_clock (account_id, livemode, id, frozen_at, state, version, failed_steps, created_at, deletes_at)
        SELECT ${mine}, ${id("clock")}, now(), 'ready', 0, 0, now(), now() ${each}`
      yield* sql`
        INSERT INTO customer (account_id, livemode, id, name, email, phone, metadata, created_at, test_clock_id)
        SELECT ${mine}, ${id("cus")}, 'C', 'User' || n || '@Example.com', '+2348' || n, jsonb_build_object('shop', (n % 40)::text, 'order', n::text), now(), ${ofClock} ${each}`
      yield* sql`
        INSERT INTO payment_method (account_id, livemode, id, customer_id, type, created_at)
        SELECT ${mine}, 'pm_test_success', ${id("cus")}, 'card', now() ${each}`
      yield* sql`
        INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, state, status, version, billing_cycle, price_kobo, quantity, start_at, anchor_at, period_no,
          period_start_at, period_end_at, period_quantity, cancel_at_period_end, bills_made, metadata, created_at, test_clock_id)
        SELECT ${mine}, ${id("sub")}, ${id("cus")}, 'plan_' || lpad((1 + n % 100)::text, 26, '0'), 'current', CASE WHEN n % 40 = 0 THEN 'past_due' ELSE 'active' END, 1, 'monthly',
          5000, 1, ${at}, ${at}, 0, ${cycle}, 1, false, 1, '{}', ${at}, ${ofClock} ${each}`
      yield* sql`
        INSERT INTO charge (account_id, livemode, id, customer_id, subscription_id, attempt_number, bill_no, period_start_at, period_end_at, amount_kobo, lines, rail, state, status,
          failure_code, version, sent_at, paid_at, created_at)
        SELECT ${mine}, ${id("chg")}, ${id("cus")}, ${id("sub")}, 1, 1, ${cycle}, 5000, '[]', 'simulator', 'settled', status, CASE WHEN status = 'failed' THEN 'declined' END, 1, ${at},
          CASE WHEN status = 'succeeded' THEN ${at} END, ${at}
        FROM (SELECT n, CASE WHEN n % 40 = 0 THEN 'failed' ELSE 'succeeded' END AS status ${each}) s`
      yield* sql`
        INSERT INTO nudge (account_id, livemode, id, customer_id, subscription_id, source, template, state, status, version, channels, contacts, channel, position, tries, attempts, message, counts, created_at)
        SELECT ${mine}, ${id("ndg")}, ${id("cus")}, ${id("sub")}, 'api', 'payment_due', 'queued', CASE WHEN n % 40 = 0 THEN 'failed' ELSE 'queued' END, 1, '{sms}', '{"sms": "+2348031234567"}',
          CASE WHEN n % 40 = 0 THEN 'email' ELSE 'sms' END, 0, 0, CASE WHEN n % 40 = 0 THEN '[{"channel": "sms", "status": "sent", "failure_reason": null, "at": 0}]'::jsonb ELSE '[]' END,
          '{"text": "Pay"}', false, now() ${each}`
      yield* sql`
        INSERT INTO checkout_session (account_id, livemode, id, mode, success_url, cancel_url, metadata, token_hash, state, status, version, customer_id, customer_is_new, expires_at, created_at)
        SELECT ${mine}, ${id("cs")}, 'setup', 'https://shop.example', 'https://shop.example', '{}', ${account} || n, status, status, 1, ${id("cus")}, false, now() + interval '1 day', now()
        FROM (SELECT n, CASE WHEN n % 40 = 0 THEN 'open' ELSE 'expired' END AS status ${each}) s`
      const numbers = Array.from({ length: ROWS }, (_, index) => index + 1)
      const instants = numbers.map(createdAt).join()
      yield* sql`
        INSERT INTO event (account_id, livemode, id, type, object_id, data, created_at, test_clock_id)
        SELECT ${mine}, ${id("evt")}, CASE WHEN n % 3 = 0 THEN 'charge.succeeded' ELSE 'subscription.renewed' END, 'sub_' || n, '{"object": {}, "previous_attributes": {}}', to_timestamp(at / 1000), ${ofClock}
        FROM unnest(string_to_array(${instants}, ',')::bigint[]) WITH ORDINALITY AS e (at, n)`
      yield* sql`
        INSERT INTO webhook_endpoint (account_id, livemode, id, slot, url, enabled_events, state, version, created_at)
        VALUES (${mine}, 'we_1', 1, 'https://example.com', '{*}', 'enabled', 1, now())`
      yield* sql`
        INSERT INTO webhook_delivery (account_id, livemode, id, event_id, webhook_endpoint_id, object_id)
        SELECT ${mine}, ${id("dlv")}, ${id("evt")}, 'we_1', 'sub_' || n ${each}`
      yield* sql`
        INSERT INTO invoice (account_id, livemode, id, state, version, period_start_at, period_end_at, lines, total_kobo, due_at, created_at)
        SELECT ${account}::text, true, ${id("inv")}, CASE WHEN n % 40 = 0 THEN 'overdue' ELSE 'open' END, 1, m, m + interval '1 month', '[]', 0, m, m
        FROM (SELECT n, '1800-01-01'::timestamptz + n * interval '1 month' AS m ${each}) s`
      yield* sql`
        INSERT INTO provider_history (account_id, livemode, id, new_vertical, administrator, reason, created_at)
        SELECT ${account}::text, true, ${id("pvh")}, 'generic', 'Ops', 'r', now() ${each}`
      yield* sql`
        INSERT INTO api_request (account_id, livemode, id, at, method, path, status, error_code, key_id, key_last4, duration_us, is_replay)
        SELECT ${mine}, ${id("req")}, now(), 'GET', '/v1/plans', CASE WHEN n % 2 = 0 THEN 400 ELSE 200 END, NULL, 'key_1', 'abcd', 900, false ${each}`
      yield* sql`
        INSERT INTO activity (account_id, livemode, id, at, actor_kind, action)
        SELECT ${mine}, ${id("act")}, now(), 'key', 'plan.create' ${each}`
      yield* sql`
        INSERT INTO usage_counter (account_id, livemode, period_start_at)
        SELECT ${account}::text, true, '1800-01-01'::timestamptz + n * interval '1 month' ${each}`
    }),
    { discard: true },
  )

beforeAll(() =>
  database.run((sql) => Effect.andThen(sql.withTransaction(seed(sql)), Effect.asVoid(sql`VACUUM ANALYZE`.unprepared))),
)

/** Without timelines, which are one actor's rows, by the key of the journal. */
const lists = endpoints.filter(
  ({ declaration: { method, list, path } }) => method === "GET" && list === true && !path.endsWith("/timeline"),
)

/** Lists of live data only. */
const LIVE = /^\/(account|usage|providers)\//

type Statement = readonly [text: string, params: ReadonlyArray<unknown>]

interface Asked {
  readonly id?: string
  readonly query?: Readonly<Record<string, unknown>>
}

/** Runs a list in a reading session of the tenant, then `after` with the statements that it ran. */
const list = <A, E>(
  path: string,
  { id = ACCOUNT, query = {} }: Asked,
  after: (page: Page<Json>, statements: ReadonlyArray<Statement>) => Effect.Effect<A, E, SqlClient.SqlClient>,
): Promise<A> => {
  const { declaration, handler } = lists.find(({ declaration }) => declaration.path === path)!
  const livemode = LIVE.test(declaration.path)
  const tenant: Tenant = { account_id: ACCOUNT, livemode }
  if (handler.kind !== "read") throw new Error(`${path} writes`)
  const statements: Array<Statement> = []
  const request = {
    ...tenant,
    caller: { name: "test", isMember: false },
    id,
    params: { id },
    body: {},
    query,
    recordKey: null,
  }
  const run = Effect.provideService(handler.run(request), CurrentTransformer, (statement) => {
    statements.push(statement.compile() as Statement)
    return Effect.succeed(statement)
  }) as Effect.Effect<Page<Json>, unknown, Services>
  return runtime.runPromise(
    Effect.flatMap(TenantDatabase, (tenants) =>
      tenants.reading(
        tenant,
        Effect.flatMap(run, (page) => after(page, statements)),
      ),
    ),
  )
}

interface Node {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Index Name"?: string
  readonly "Index Cond"?: string
  readonly Filter?: string
  readonly Plans?: ReadonlyArray<Node>
}

const nodesOf = (node: Node): ReadonlyArray<Node> => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

interface Explained {
  readonly "QUERY PLAN": ReadonlyArray<{ readonly Plan: Node }>
}

/** The plan of a statement: for its values, and the generic one that a session uses after many runs. */
const plansOf = Effect.fnUntraced(function* ([text, params]: Statement) {
  const sql = yield* SqlClient.SqlClient
  const any = params.length === 0 ? "" : `(${params.map(() => "NULL").join()})`
  yield* sql.unsafe(`PREPARE often AS ${text}`).unprepared
  yield* sql`SELECT set_config('plan_cache_mode', 'force_generic_plan', false)`
  const generic = yield* sql.unsafe<Explained>(`EXPLAIN (FORMAT JSON) EXECUTE often ${any}`).unprepared
  yield* sql`SELECT set_config('plan_cache_mode', 'auto', false)`
  yield* sql.unsafe("DEALLOCATE often").unprepared
  return [...(yield* sql.unsafe<Explained>(`EXPLAIN (FORMAT JSON) ${text}`, params)), ...generic]
})

/** How statements read tables. */
const explain = (statements: ReadonlyArray<Statement>) =>
  Effect.map(Effect.forEach(statements, plansOf), (plans) =>
    plans
      .flat()
      .map(({ "QUERY PLAN": [plan] }) => nodesOf(plan!.Plan).filter((node) => node["Relation Name"] !== undefined)),
  )

/** A look-up of rows by primary key reads no more than the step before found. */
const byId = ({ "Index Cond": condition = "" }: Node) => condition.includes("(id = ")

/** For each list: its filters with a value, the index, the compared column, and the remaining filter. */
const CASES: Readonly<Record<string, readonly [asked: Asked, index: string, column: string, left?: string]>> = {
  "/plans": [{}, "plan_pkey", "account_id"],
  "/plans status": [{ query: { status: "archived" } }, "plan_status", "status"],
  "/customers": [{}, "customer_pkey", "account_id"],
  "/customers email": [{ query: { email: "uSer77@example.COM" } }, "customer_email", "email_key"],
  "/customers phone": [{ query: { phone: "+234877" } }, "customer_phone", "phone"],
  "/customers metadata": [{ query: { metadata: { shop: "7" } } }, "customer_metadata_pair_pkey", "digest"],
  "/customers/:id/payment-methods :id": [{ id: idOf("cus", 7) }, "payment_method_pkey", "customer_id"],
  "/payment-method-test-ids": [{}, "", ""],
  "/customers test_clock": [{ query: { test_clock: idOf("clock", 7) } }, "customer_test_clock", "test_clock_id"],
  "/subscriptions": [{}, "subscription_pkey", "account_id"],
  "/subscriptions customer": [{ query: { customer: idOf("cus", 7) } }, "subscription_customer", "customer_id"],
  "/subscriptions plan": [{ query: { plan: idOf("plan", 7) } }, "subscription_plan", "plan_id"],
  "/subscriptions status": [{ query: { status: "past_due" } }, "subscription_status", "status"],
  "/subscriptions test_clock": [
    { query: { test_clock: idOf("clock", 7) } },
    "subscription_test_clock",
    "test_clock_id",
  ],
  "/charges": [{}, "charge_pkey", "account_id"],
  "/charges customer": [{ query: { customer: idOf("cus", 7) } }, "charge_customer", "customer_id"],
  "/charges subscription": [{ query: { subscription: idOf("sub", 7) } }, "charge_subscription", "subscription_id"],
  "/charges status": [{ query: { status: "failed" } }, "charge_status", "status"],
  "/checkout-sessions": [{}, "checkout_session_pkey", "account_id"],
  "/checkout-sessions customer": [{ query: { customer: idOf("cus", 7) } }, "checkout_session_customer", "customer_id"],
  "/checkout-sessions status": [{ query: { status: "open" } }, "checkout_session_status", "status"],
  "/nudges": [{}, "nudge_pkey", "account_id"],
  "/nudges customer": [{ query: { customer: idOf("cus", 7) } }, "nudge_customer", "customer_id"],
  "/nudges subscription": [{ query: { subscription: idOf("sub", 7) } }, "nudge_subscription", "subscription_id"],
  "/nudges channel": [{ query: { channel: "email" } }, "nudge_channel", "channel"],
  "/nudges status": [{ query: { status: "failed" } }, "nudge_status", "status"],
  "/test/nudge-outbox": [{}, "nudge_outbox", "account_id"],
  // Of one customer's nudges only.
  "/test/nudge-outbox customer": [
    { query: { customer: idOf("cus", 40) } },
    "nudge_customer",
    "customer_id",
    "(attempts <> '[]'::jsonb)",
  ],
  "/events": [{}, "event_pkey", "account_id"],
  "/events type": [{ query: { type: "charge.succeeded" } }, "event_type", "type"],
  "/events created_after": [{ query: { created_after: "2020-01-05T00:00:00Z" } }, "event_created", "created_at"],
  "/events created_before": [{ query: { created_before: "2020-01-05T00:00:00Z" } }, "event_created", "created_at"],
  "/events test_clock": [{ query: { test_clock: idOf("clock", 7) } }, "event_test_clock", "test_clock_id"],
  "/events/:id/deliveries :id": [{ id: idOf("evt", 7) }, "webhook_delivery_event", "event_id"],
  "/webhook-endpoints": [{}, "webhook_endpoint_pkey", "account_id"],
  "/test/clocks": [{}, "test_clock_known", "account_id"],
  "/usage/history": [{}, "usage_counter_pkey", "account_id"],
  "/account/invoices": [{}, "invoice_pkey", "account_id"],
  "/account/invoices status": [{ query: { status: "overdue" } }, "invoice_state", "state"],
  "/requests": [{}, "api_request_pkey", "account_id"],
  "/requests status": [{ query: { status: "failed" } }, "api_request_failed", "account_id"],
  "/activity": [{}, "activity_pkey", "account_id"],
  "/providers/:id/history": [{}, "provider_history_pkey", "account_id"],
}

/** Pairs of filters, each with many rows and together few. A missing pair has a filter with few (a customer's). */
const PAIRS: typeof CASES = {
  "/requests that succeeded": [{ query: { status: "succeeded" } }, "api_request_succeeded", "account_id"],
  "/subscriptions plan and status": [
    { query: { plan: idOf("plan", 40), status: "active" } },
    "subscription_plan_status",
    "plan_id",
  ],
  "/nudges channel and status": [{ query: { channel: "email", status: "failed" } }, "nudge_channel_status", "channel"],
}

describe("the filters of lists", () => {
  const declared = lists.flatMap(({ declaration: { path, query, access } }) => {
    const fields = Object.keys((query as Schema.Struct<Schema.Struct.Fields> | undefined)?.fields ?? {})
    const filters = fields.filter((field) => !Object.hasOwn(pageFields, field)).map((field) => `${path} ${field}`)
    return path.includes(":id") && access !== "administrator" ? [`${path} :id`, ...filters] : [path, ...filters]
  })

  it("are those with a test case here", () => {
    expect(Object.keys(CASES).sort()).toEqual(declared.sort())
  })

  it.each(Object.entries({ ...CASES, ...PAIRS }))(
    "%s: reads no row of the tenant that it does not return",
    async (name, [asked, index, column, left]) => {
      const { page, plans } = await list(name.split(" ")[0]!, asked, (page, statements) =>
        Effect.map(explain(statements), (plans) => ({ page, plans })),
      )
      expect(page.data.length).toBeGreaterThan(0)
      for (const node of plans.flat()) {
        expect(node["Node Type"], JSON.stringify(node)).toMatch(/^Index (Only )?Scan$/)
        if (!byId(node)) expect(node.Filter, JSON.stringify(node)).toBe(left)
      }
      const reached = plans.filter((nodes) => nodes.some((node) => node["Index Name"] === index))
      if (index !== "") expect(reached, JSON.stringify(plans)).toHaveLength(2)
      for (const nodes of reached)
        for (const node of nodes.filter((node) => node["Index Name"] === index))
          expect(node["Index Cond"]).toMatch(new RegExp(`\\(${column} [=<>]`))
    },
  )
})

/** All pages of a list: forwards from its newest object, or backwards from its oldest. */
const walk = async (path: string, query: Readonly<Record<string, unknown>>, backwards = false) => {
  const found: Array<string> = []
  for (let cursor: Readonly<Record<string, string>> = backwards ? { ending_before: idOf("evt", 1) } : {}; ; ) {
    const { data, hasMore } = await list(path, { query: { limit: "100", ...query, ...cursor } }, Effect.succeed)
    const ids = data.map(({ id }) => id as string)
    found.push(...(backwards ? ids.toReversed() : ids))
    if (!hasMore) return found
    cursor = backwards ? { ending_before: ids[0]! } : { starting_after: ids.at(-1)! }
  }
}

describe("events between two instants", () => {
  const hour = (n: number) => new Date(START + n * HOUR_MS).toISOString()
  const numbers = Array.from({ length: ROWS }, (_, index) => index + 1)

  it.each([
    ["all", undefined, ROWS + 1],
    ["none", ROWS + 10, undefined],
    ["the newest", ROWS - 30, ROWS + 1],
    ["a few that are everywhere", 300, 340],
    ["many, all of them old", 0, 1_300],
    ["the one in between", 699, 701],
  ] as const)("are exactly: %s", async (_, after, before) => {
    const within = numbers.filter(
      (n) =>
        createdAt(n) > START + (after ?? -1) * HOUR_MS &&
        createdAt(n) < (before === undefined ? Number.POSITIVE_INFINITY : START + before * HOUR_MS),
    )
    const range = {
      ...(after === undefined ? {} : { created_after: hour(after) }),
      ...(before === undefined ? {} : { created_before: hour(before) }),
    }
    const wanted = within.map((n) => idOf("evt", n))
    expect(await walk("/events", range)).toEqual(wanted.toReversed())
    // The cursor is the oldest event, which is on no page that ends before it.
    expect(await walk("/events", range, true)).toEqual(wanted.filter((id) => id !== idOf("evt", 1)))
    const charged = within.filter((n) => n % 3 === 0).map((n) => idOf("evt", n))
    expect(await walk("/events", { ...range, type: "charge.succeeded" })).toEqual(charged.toReversed())
  })
})

describe("customers by metadata", () => {
  const metadata = (shop: string) => walk("/customers", { metadata: { shop } })

  /** Rows of one table that the other lacks. Both should have all rows. */
  const astray = (sql: SqlClient.SqlClient) => {
    const noted = sql`SELECT account_id, livemode, customer_id, digest FROM customer_metadata_pair`
    const due = sql`SELECT account_id, livemode, id, metadata_digest(key, value) FROM customer, jsonb_each_text(metadata)`
    return sql`(${noted} EXCEPT ${due}) UNION ALL (${due} EXCEPT ${noted})`
  }

  /** Runs statements as a write of the tenant does. */
  const write = (work: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
    runtime.runPromise(
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        return yield* (yield* TenantDatabase).writing({ account_id: ACCOUNT, livemode: false }, work(sql))
      }),
    )

  it("follow the index table, whichever statement writes it", async () => {
    const sevens = Array.from({ length: ROWS / 40 }, (_, index) => idOf("cus", index * 40 + 7)).toReversed()
    expect(await metadata("7")).toEqual(sevens)
    const [first, second, third, ...others] = sevens
    await write((sql) => sql`UPDATE customer SET metadata = '{"shop": "north", "empty": ""}' WHERE id = ${first}`)
    await write((sql) => sql`UPDATE customer SET metadata = '{}' WHERE id = ${second}`)
    for (const table of ["payment_method", "nudge", "checkout_session", "charge", "subscription"])
      await write((sql) => sql`DELETE FROM ${sql(table)} WHERE customer_id = ${third}`)
    await write((sql) => sql`DELETE FROM customer WHERE id = ${third}`)
    expect(await metadata("7")).toEqual(others)
    expect(await metadata("north")).toEqual([first])
    expect(await database.run(astray)).toEqual([])
    await database.run((sql) => sql`UPDATE customer SET metadata = metadata || '{"shop": "7"}' WHERE id = ${second}`)
    expect(await metadata("7")).toEqual([second, ...others])
    expect(await database.run(astray)).toEqual([])
  })

  it("with only an equal digest are not shown", async () => {
    await write(
      (sql) => sql`
        INSERT INTO customer_metadata_pair (account_id, livemode, digest, customer_id)
        VALUES (${ACCOUNT}, false, metadata_digest('shop', 'none'), ${idOf("cus", 1)})`,
    )
    expect(await metadata("none")).toEqual([])
  })

  it("are indexed for their own tenant only", async () => {
    const forged = write(
      (sql) => sql`
        INSERT INTO customer_metadata_pair (account_id, livemode, digest, customer_id)
        VALUES ('acct_other', false, metadata_digest('shop', 'x'), ${idOf("cus", 1)})`,
    )
    await expect(forged).rejects.toMatchObject({ reason: { cause: { code: "42501" } } })
    expect(
      await write((sql) => sql`DELETE FROM customer_metadata_pair WHERE account_id = 'acct_other' RETURNING 1`),
    ).toEqual([])
  })
})
