import { describe, expect, it } from "vitest"
import type { AnyStateMachine, AnyStateNode } from "xstate"
import { LIVE_ACCESS } from "../machines/live_access.ts"
import { API_PLANS } from "../src/base/apiPlans.ts"
import { charges } from "../src/billing/charge/charge.ts"
import { clockLifecycle, clocks } from "../src/billing/clock/clock.ts"
import { customers } from "../src/billing/customer/customer.ts"
import { paymentMethods } from "../src/billing/payment_method/paymentMethods.ts"
import { plans } from "../src/billing/plan/plan.ts"
import { refunds } from "../src/billing/refund/refund.ts"
import { subscriptions } from "../src/billing/subscription/subscription.ts"
import { unitRecords } from "../src/billing/subscription/units.ts"
import { sessions } from "../src/buying/checkout/checkout.ts"
import { instalmentPlans } from "../src/buying/instalment/plan.ts"
import { products } from "../src/buying/instalment/product.ts"
import type { Table } from "../src/db/table.ts"
import { VERTICALS } from "../src/merchants/account/verticals.ts"
import { invoiceLifecycle, invoices } from "../src/merchants/invoice/invoice.ts"
import { providerChanges } from "../src/merchants/provider/providers.ts"
import { events } from "../src/outbound/event/events.ts"
import { nudges } from "../src/outbound/nudge/nudge.ts"
import { deliveries } from "../src/outbound/webhook/delivery.ts"
import { endpointLifecycle, endpoints } from "../src/outbound/webhook/endpoint.ts"
import { OUTSIDE_RAILS, RAILS } from "../src/rails/rail/Rail.ts"
import { CALL_KINDS } from "../src/rails/rail_call/queue.ts"
import { ACTOR_KINDS } from "../src/runtime/lifecycle.ts"
import { KEY_TYPES } from "../src/security/key/key.ts"
import { useDatabase } from "./support/database.ts"

const database = useDatabase()

/** Tables that belong to no account. */
const SHARED = [
  "account",
  "account_kept",
  "account_mark",
  "account_move",
  "administrator_key",
  "cell",
  "dashboard_session",
  "ledger_account",
  "ledger_closing",
  "ledger_totalled",
  "passkey",
  "schema_migration",
  "service_secret",
  "sign_in",
  "write_probe",
]

interface Found {
  readonly name: string
}

const names = (rows: ReadonlyArray<Found>) => rows.map(({ name }) => name)

describe("the data model", () => {
  it("begins every tenant table's primary key with account_id and livemode", async () => {
    const rows = await database.run(
      (sql) => sql<Found & { columns: ReadonlyArray<string> }>`
        SELECT c.relname AS name, array_agg(a.attname::text ORDER BY k.n) AS columns
        FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
        CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, n)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' GROUP BY c.relname`,
    )
    const tenant = rows.filter(({ name }) => !SHARED.includes(name))
    expect(tenant.length).toBeGreaterThan(10)
    for (const { name, columns } of tenant) expect(columns.slice(0, 2), name).toEqual(["account_id", "livemode"])
  })

  it("carries account_id in every foreign key between tenant tables", async () => {
    const rows = await database.run(
      (sql) => sql<Found>`
        SELECT conname AS name FROM pg_constraint f
        WHERE contype = 'f' AND connamespace = 'public'::regnamespace
          AND confrelid::regclass::text NOT IN ('account', 'ledger_account')
          AND NOT EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = f.conrelid AND a.attname = 'account_id' AND a.attnum = f.conkey[1])`,
    )
    expect(names(rows)).toEqual([])
  })

  it("has the account and the environment in every unique key of a tenant table", async () => {
    const rows = await database.run(
      (sql) => sql<Found>`
        SELECT i.indexrelid::regclass::text AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        WHERE i.indisunique AND c.relnamespace = 'public'::regnamespace
          AND NOT c.relname = ANY(${SHARED}::text[]) AND i.indexrelid::regclass::text <> 'api_key_hash_unique'
          AND (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('account_id', 'livemode') AND a.attnum = ANY(i.indkey)) < 2`,
    )
    expect(names(rows)).toEqual([])
  })

  it("has the inactive fence of moving accounts on every tenant table", async () => {
    const rows = await database.run(
      (sql) => sql<Found>`
        SELECT c.relname AS name FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
          AND (c.relname = 'account' OR NOT c.relname = ANY(${SHARED}::text[]))
          AND NOT EXISTS (
            SELECT 1 FROM pg_trigger t
            WHERE t.tgrelid = c.oid AND t.tgname = 'account_moving' AND t.tgenabled = 'D')`,
    )
    expect(names(rows)).toEqual([])
  })

  it("comments every table", async () => {
    const rows = await database.run(
      (sql) => sql<Found>`
        SELECT relname AS name FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'schema_migration' AND obj_description(oid, 'pg_class') IS NULL`,
    )
    expect(names(rows)).toEqual([])
  })
})

/** Every table that the source declares. */
const DECLARED = [
  charges,
  clocks,
  customers,
  deliveries,
  endpoints,
  events,
  instalmentPlans,
  invoices,
  nudges,
  paymentMethods,
  plans,
  products,
  providerChanges,
  refunds,
  sessions,
  subscriptions,
  unitRecords,
] as ReadonlyArray<Pick<Table<never>, "name" | "columns">>

/** Columns without a value in the source's rows: the database or a separate statement fills them. */
const NOT_IN_ROWS = new Set([
  "customer.email_key",
  "event.recorded_at",
  "instalment_plan.created_no",
  "nudge.taken_at",
  "payment_method.attached_no",
  "payment_method.email",
  "payment_method.sealed",
  "payment_method.signature",
  "plan.reminders_rescheduled_to",
  "plan.reminders_turn_at",
  "webhook_delivery.seq",
])

/** Enumerations of tables that are not declared, by table and column. */
const ENUMERATIONS: ReadonlyArray<readonly [table: string, column: string, literals: ReadonlyArray<string>]> = [
  ["account", "api_plan", API_PLANS],
  ["account", "live_access", LIVE_ACCESS],
  ["account", "rail", RAILS],
  ["account", "vertical", VERTICALS],
  ["api_key", "type", KEY_TYPES],
  ["lifecycle_journal", "actor_kind", ACTOR_KINDS],
  ["rail_call", "kind", CALL_KINDS],
  ["rail_callback", "rail", OUTSIDE_RAILS],
  ["rail_credential", "rail", OUTSIDE_RAILS],
]

/** The possible states of a machine's rows. */
const statesOf = (machine: AnyStateMachine): ReadonlyArray<string> => {
  const leaves = (node: AnyStateNode): ReadonlyArray<string> =>
    Object.values(node.states).length === 0 ? [node.path.join(".")] : Object.values(node.states).flatMap(leaves)
  return leaves(machine.root)
}

const catalogue = () =>
  database.run(
    (sql) => sql<{ table: string; column: string; type: string; nullable: boolean; byDefault: boolean }>`
      SELECT c.relname AS table, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type, NOT a.attnotnull AS nullable,
        a.atthasdef AND a.attgenerated = '' AS "byDefault"
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
      WHERE a.attnum > 0 AND NOT a.attisdropped`,
  )

/** The literals in single-column checks, by `table.column`. */
const checked = async () => {
  const rows = await database.run(
    (sql) => sql<{ column: string; definition: string }>`
      SELECT c.relname || '.' || a.attname AS column, pg_get_constraintdef(k.oid) AS definition
      FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(k.conkey)
      WHERE k.contype = 'c' AND k.connamespace = 'public'::regnamespace`,
  )
  const compared =
    /\(?(\w+) (?:(?:= ANY|<@) \(?ARRAY\[([^\]]*)\]|= ANY \('\{([^}]*)\}'::text\[\]\))|\((\w+) = ('[^']*')::text\)/g
  const literals = new Map<string, ReadonlyArray<string>>()
  for (const { column, definition } of rows)
    for (const [, several, list, whole, one, only] of definition.matchAll(compared)) {
      if (!column.endsWith(`.${several ?? one}`)) continue
      const found = whole?.split(",") ?? [...(list ?? only)!.matchAll(/'([^']*)'/g)].map(([, literal]) => literal!)
      // Of several checks, the complete one: others are about some of the values.
      if (found.length > (literals.get(column)?.length ?? 0)) literals.set(column, found)
    }
  return literals
}

describe("a declaration in the source", () => {
  it("is null for columns that an insert omits", async () => {
    const others = (await catalogue()).filter(({ nullable, byDefault }) => nullable && byDefault)
    const declared = new Set(DECLARED.map(({ name }) => name))
    expect(others.filter(({ table }) => declared.has(table))).toEqual([])
  })

  it("matches every column of its table, and its type", async () => {
    const rows = await catalogue()
    for (const { name, columns } of DECLARED) {
      const declared = Object.entries(columns).map(([column, { kind }]) => [column, kind.sql, kind.nullable])
      const found = rows
        .filter(({ table, column }) => table === name && !NOT_IN_ROWS.has(`${table}.${column}`))
        .map(({ column, type, nullable }) => [
          column,
          type.replace("timestamp with time zone", "timestamptz"),
          nullable,
        ])
      expect(declared.sort(), name).toEqual(found.sort())
    }
  })

  it("allows the values that the table's checks allow", async () => {
    const literals = await checked()
    const enumerations = [
      ...DECLARED.flatMap(({ name, columns }) =>
        Object.entries(columns).flatMap(([column, { kind }]) =>
          kind.literals === undefined ? [] : [[name, column, kind.literals] as const],
        ),
      ),
      ...[clockLifecycle, invoiceLifecycle, endpointLifecycle].map(
        // An invoice is inserted when it is open.
        ({ kind, machine }) => [kind, "state", statesOf(machine).filter((state) => state !== "drafted")] as const,
      ),
      ...ENUMERATIONS,
    ]
    expect(enumerations.length).toBeGreaterThan(20)
    for (const [table, column, values] of enumerations)
      expect([...(literals.get(`${table}.${column}`) ?? [])].sort(), `${table}.${column}`).toEqual([...values].sort())
  })
})
