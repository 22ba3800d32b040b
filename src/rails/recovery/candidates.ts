/** Selects the transactions of a rail's list that must be entered, and says why others are not (decision F9). */
import { Effect } from "effect"
import { isId, madeAt } from "../../base/ids.ts"
import { type ChargeRow, charges } from "../../billing/charge/charge.ts"
import type { Described } from "../../billing/payments/railMetadata.ts"
import type { RailAccount } from "../credential/credential.ts"
import type { RailTransaction } from "../rail/Rail.ts"
import type { FoundTransaction, Reason } from "./found.ts"
import type { Listed } from "./listing.ts"

const MAX_LOOKED_UP = 1_000

/** A transaction that is not entered, and why. */
export interface Unplaced {
  readonly reference: string
  readonly rail: string
  readonly account: string
  readonly customer: string | null
  readonly subscription: string | null
  /** The requested amount (kobo), and the status at the rail; null: unknown. */
  readonly amount: number | null
  readonly status: RailTransaction["status"] | null
  readonly reason: Reason
}

/** A transaction that is not in the database, or is pending there. */
export interface Open extends RailAccount {
  readonly reference: string
  readonly listed: Listed & { readonly described: Described }
  readonly isKnown: boolean
}

export const unplaced = (
  { account_id, rail }: RailAccount,
  { reference, described }: Listed,
  reason: Reason,
  transaction?: RailTransaction,
): Unplaced => ({
  reference,
  rail,
  account: account_id,
  customer: described?.customer ?? null,
  subscription: described?.subscription ?? null,
  amount: described?.amountKobo ?? null,
  status: transaction?.status ?? null,
  reason,
})

const findExisting = Effect.fnUntraced(function* (of: RailAccount, references: ReadonlyArray<string>) {
  const existing = new Map<string, ChargeRow>()
  for (let from = 0; from < references.length; from += MAX_LOOKED_UP) {
    const slice = references.slice(from, from + MAX_LOOKED_UP)
    const rows = yield* charges.find({ account_id: of.account_id, livemode: true }, slice)
    for (const [id, row] of rows) existing.set(id, row)
  }
  return existing
})

/** Returns why a transaction cannot be a charge of this account, by its metadata; undefined: it can. */
const objectionTo = ({ account_id }: RailAccount, { reference, described }: Listed): Reason | undefined => {
  if (described === undefined) return "it carries no metadata by which it could be entered"
  if (described.account !== account_id) return `its metadata names the account ${described.account}`
  if (described.environment !== "live") return `its metadata names the environment ${described.environment}`
  if (!isId("charge", reference) && !isId("verification", reference)) return "its reference is not the ID of a charge"
  return undefined
}

const objectionToExisting = ({ rail }: RailAccount, row: ChargeRow): Reason | undefined =>
  row.rail === rail ? undefined : `its reference is of a charge at ${row.rail}`

export const foundOf = (
  { account_id, rail, reference, listed }: Open,
  transaction: RailTransaction,
  now: number,
): FoundTransaction => {
  const made = Math.min(madeAt(reference), now)
  const settled = listed.at !== null && listed.at >= made && listed.at <= now ? listed.at : made
  return {
    account_id,
    livemode: true,
    id: reference,
    rail,
    described: listed.described,
    transaction,
    madeAt: made,
    settledAt: settled,
  }
}

/** Returns the transactions of an account that must be entered, by customer, in the order of creation. */
export const sortOut = Effect.fnUntraced(function* (of: RailAccount, ours: ReadonlyMap<string, Listed>) {
  const existing = yield* findExisting(of, [...ours.keys()])
  const refused: Array<Unplaced> = []
  const open: Array<Open> = []
  let misplaced = 0
  for (const listed of ours.values()) {
    const row = existing.get(listed.reference)
    const objection = row === undefined ? objectionTo(of, listed) : objectionToExisting(of, row)
    if (objection !== undefined) {
      refused.push(unplaced(of, listed, objection))
      if (row !== undefined) misplaced++
    } else if ((row === undefined || row.status === "pending") && listed.described !== undefined)
      open.push({
        ...of,
        reference: listed.reference,
        listed: { ...listed, described: listed.described },
        isKnown: row !== undefined,
      })
  }
  open.sort((a, b) => madeAt(a.reference) - madeAt(b.reference) || (a.reference < b.reference ? -1 : 1))
  const byCustomer = [...Map.groupBy(open, ({ listed }) => listed.described.customer)]
  // If nothing is new, pending charges are asked about on their schedule. But a charge that would be sent again is settled now.
  const isToBeEntered = ({ isKnown, reference }: Open) =>
    !isKnown || existing.get(reference)!.state === "pending.sending"
  return {
    known: existing.size - misplaced,
    refused,
    groups: byCustomer.filter(([, group]) => group.some(isToBeEntered)),
  }
})
