/** Finds objects by what people have at hand: an ID, an e-mail address, a phone number, the number of a payment at its provider (decision R8). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type IdKind, isPlanCode, kindOf } from "../base/ids.ts"
import { charges } from "../billing/charge/charge.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import { naira, words } from "../pages/dashboard/parts.ts"
import { type Match, searchMain } from "../pages/dashboard/search.ts"
import { fromPaystack } from "../rails/rail/paystack/answers.ts"
import { findCustomers } from "./customerChoice.ts"
import { pathOfObject } from "./objects.ts"
import { goTo, memberPage, show, type Viewer } from "./pages.ts"

const LONGEST = 200
/** How many payments of one number are shown. A provider gives a number once. */
const MOST_PAYMENTS = 10

/** Objects without a page of their own: the column of the object whose page shows them. */
const SHOWN_BY: Readonly<Partial<Record<IdKind, { readonly table: string; readonly columns: ReadonlyArray<string> }>>> =
  {
    unit_record: { table: "unit_record", columns: ["subscription_id"] },
    ledger_entry: { table: "ledger_entry", columns: ["charge_id", "subscription_id", "customer_id"] },
  }

/** The object whose page shows this one; null: there is none. */
const findOwner = Effect.fnUntraced(function* (tenant: Tenant, id: string, kind: IdKind | undefined) {
  const found = kind === undefined ? undefined : SHOWN_BY[kind]
  if (found === undefined) return null
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ owner: string | null }>`
    SELECT coalesce(${sql.csv(found.columns.map((column) => sql`${sql(column)}`))}) AS owner
    FROM ${sql(found.table)} WHERE ${ofTenant(sql, tenant)} AND id = ${id}`
  return row?.owner ?? null
})

/** The forms in which an ID is copied: as it is, from a provider that takes no underscore, or in other letters. */
const idsIn = (typed: string): ReadonlyArray<string> => [
  typed,
  typed.toLowerCase(),
  fromPaystack(typed),
  typed.toUpperCase(),
]

/** The path of the page that shows the object with the ID that was typed; null: it is no ID, or no page shows it. */
const pathOf = Effect.fnUntraced(function* ({ tenant, environment }: Viewer, typed: string) {
  const id = idsIn(typed).find((one) => isPlanCode(one) || kindOf(one) !== undefined)
  if (id === undefined) return null
  const path = pathOfObject(id, environment)
  if (path !== null) return path
  const { reading } = yield* TenantDatabase
  return pathOfObject(yield* reading(tenant, findOwner(tenant, id, kindOf(id))), environment)
})

/** The charges with this number at their payment rail. */
const findPayments = Effect.fnUntraced(function* (tenant: Tenant, typed: string) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ id: string }>`
    SELECT id FROM charge WHERE rail_id = ${typed} AND ${ofTenant(sql, tenant)} AND purpose <> 'verification' LIMIT ${MOST_PAYMENTS}`
  const rows = yield* charges.find(
    tenant,
    found.map(({ id }) => id),
  )
  return [...rows.values()]
})

const search = memberPage(
  "/dashboard/:environment/search",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { base, tenant } = viewer
      const typed = (viewer.search.get("q") ?? "").trim().slice(0, LONGEST)
      const path = yield* pathOf(viewer, typed)
      if (path !== null) return goTo(path)
      const { reading } = yield* TenantDatabase
      const [customers, payments] =
        typed === ""
          ? [[], []]
          : yield* Effect.all([findCustomers(viewer, typed), reading(tenant, findPayments(tenant, typed))], {
              concurrency: "unbounded",
            })
      const matches: ReadonlyArray<Match> = [
        ...customers.map(({ id, name, email, phone }) => ({
          kind: "Customer",
          name,
          beside: [email, phone].filter((one) => one !== null).join(", "),
          href: `${base}/customers/${id}`,
        })),
        ...payments.map(({ id, amount_kobo, status }) => ({
          kind: "Charge",
          name: naira(amount_kobo),
          beside: words(status),
          href: `${base}/charges/${id}`,
        })),
      ]
      if (matches.length === 1) return goTo(matches[0]!.href)
      return show(viewer, "Search", searchMain({ typed, matches }))
    }),
  },
)

export const searchRoutes = [search]
