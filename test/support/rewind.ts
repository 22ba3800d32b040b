/** Makes wall-clock time pass for accounts by moving their data back. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { rowsAsTable } from "../../src/db/rows.ts"
import { retryingDeadlocks } from "../../src/postgres/deadlock.ts"

/** The time that passes for an account. */
export interface Passing {
  readonly account: string
  readonly ms: number
}

const PASSING = { account: "text", ms: "bigint" } as const

/** Instants, table by table. */
const INSTANTS = {
  customer: ["created_at"],
  subscription: [
    "start_at",
    "trial_end_at",
    "anchor_at",
    "period_start_at",
    "period_end_at",
    "next_charge_at",
    "cancelled_at",
    "created_at",
  ],
  charge: ["sent_at", "known_at", "period_start_at", "period_end_at", "next_retry_at", "created_at", "paid_at"],
  refund: ["requested_at", "returned_at", "created_at"],
  checkout_session: ["created_at", "expires_at", "completed_at"],
  timer: ["due_at"],
  rail_call: ["queued_at", "sent_at"],
  rail_throttle: ["failing_since", "next_call_at"],
  rail_credential: ["created_at", "replaced_at"],
} as const

/** Fields of JSON columns with instants in milliseconds, table by table, each by its path. */
const FIELDS = {
  subscription: {
    bill: ["anchorAt", "periodStart", "periodEnd", "attemptedAt"],
    dunning: ["firstFailedAt", "nextRetryAt"],
    pause: ["at", "resumesAt"],
    escalation: ["triggeredAt"],
  },
  charge: { page: ["openedAt", "returnedAt"] },
  lifecycle_journal: {
    event: [
      "at",
      "startAt",
      "resumesAt",
      "attemptedAt",
      "returnedAt",
      "deliveredAt",
      "endedAt",
      "knownAt",
      "retryNotBefore",
      "expiresAt",
      "bill,anchorAt",
      "bill,periodStart",
      "bill,periodEnd",
      "bill,attemptedAt",
    ],
  },
} as const

/** Tables whose journals move with their rows. */
const MOVED_ACTORS = ["subscription", "charge", "refund", "checkout_session"]

type TableName = keyof typeof INSTANTS | keyof typeof FIELDS

const movedField = (column: string, path: string, inner: string): string =>
  `CASE WHEN jsonb_typeof(${column}#>'{${path}}') = 'number'
    THEN jsonb_set(${inner}, '{${path}}', to_jsonb((${column}#>>'{${path}}')::bigint - p.ms)) ELSE ${inner} END`

/** The SQL that moves a table's columns back by `p.ms`. `further`: and by this much more. */
const assignments = (table: TableName, further = ""): ReadonlyArray<string> => {
  const instants: ReadonlyArray<string> = table in INSTANTS ? INSTANTS[table as keyof typeof INSTANTS] : []
  const fields: Readonly<Record<string, ReadonlyArray<string>>> =
    table in FIELDS ? FIELDS[table as keyof typeof FIELDS] : {}
  return [
    ...instants.map((column) => `${column} = x.${column} - p.ms * interval '1 millisecond'${further}`),
    ...Object.entries(fields).map(
      ([column, names]) =>
        `${column} = ${names.reduce((inner, field) => movedField(`x.${column}`, field, inner), `x.${column}`)}`,
    ),
  ]
}

/** In the order in which the service locks them, so that no new rows come from them meanwhile. */
const LOCKED = ["customer", "checkout_session", "subscription", "charge", "refund"] as const

/**
 * Lets time pass for accounts, each by its own amount: all their data moves back, with journals. Only whole grids move
 * unchanged: subscriptions of daily and weekly plans.
 */
export const letPass = (passings: ReadonlyArray<Passing>) =>
  Effect.gen(function* () {
    if (passings.length === 0) return
    const sql = yield* SqlClient.SqlClient
    const of = rowsAsTable(passings, PASSING)
    const move = (table: TableName, set: ReadonlyArray<string>) =>
      sql`
        UPDATE ${sql(table)} x SET ${sql.literal(set.join(", "))} FROM ${of} p
        WHERE x.account_id = p.account ${table === "lifecycle_journal" ? sql`AND x.actor_kind IN ${sql.in(MOVED_ACTORS)}` : sql.literal("")}`
    const moving = sql.withTransaction(
      Effect.gen(function* () {
        for (const table of LOCKED)
          yield* sql`SELECT x.id FROM ${sql(table)} x JOIN ${of} p ON x.account_id = p.account ORDER BY x.id FOR NO KEY UPDATE OF x`
        // First a century back: paid periods must not overlap, not even on their way.
        yield* move("charge", assignments("charge", " - interval '100 years'"))
        const back = INSTANTS.charge.map((column) => `${column} = x.${column} + interval '100 years'`)
        yield* move("charge", back)
        for (const table of new Set([...Object.keys(INSTANTS), ...Object.keys(FIELDS)] as Array<TableName>))
          if (table !== "charge") yield* move(table, assignments(table))
      }),
    )
    yield* retryingDeadlocks(moving)
  })

/** Lets time pass for one account. */
export const rewind = (account: string, ms: number) => letPass([{ account, ms }])
