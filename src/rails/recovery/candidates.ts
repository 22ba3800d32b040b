/** Which of the transactions that a rail lists are to be entered, and why others are not (decision F9). */
import { Effect } from "effect"
import { isId, madeAt } from "../../base/ids.ts"
import { type ChargeRow, charges } from "../../billing/charge/charge.ts"
import type { Described } from "../../billing/payments/railMetadata.ts"
import type { RailAccount } from "../credential/credential.ts"
import type { RailTransaction } from "../rail/Rail.ts"
import type { Found, Reason } from "./found.ts"
import type { Listed } from "./listing.ts"

const MAX_LOOKED_UP = 1_000

/** A transaction that is not entered, and why. */
export interface Unplaced {
  readonly reference: string
  readonly rail: string
  readonly account: string
  readonly customer: string | null
  readonly subscription: string | null
  /** What was asked for (kobo), and how the rail says it stands; null: not known. */
  readonly amount: number | null
  readonly status: RailTransaction["status"] | null
  readonly reason: Reason
}

/** A transaction that the database does not know, or knows as pending. */
export interface Open extends RailAccount {
  readonly reference: string
  readonly listed: Listed & { readonly described: Described }
  readonly isKnown: boolean
}

export const unplaced = (
  { account_id, rail }: RailAccount,
  { reference, described }: Listed,
  reason: Reason,
  heard?: RailTransaction,
): Unplaced => ({
  reference,
  rail,
  account: account_id,
  customer: described?.customer ?? null,
  subscription: described?.subscription ?? null,
  amount: described?.amountKobo ?? null,
  status: heard?.status ?? null,
  reason,
})

const findKnown = Effect.fnUntraced(function* (of: RailAccount, references: ReadonlyArray<string>) {
  const known = new Map<string, ChargeRow>()
  for (let from = 0; from < references.length; from += MAX_LOOKED_UP) {
    const some = references.slice(from, from + MAX_LOOKED_UP)
    const rows = yield* charges.find({ account_id: of.account_id, livemode: true }, some)
    for (const [id, row] of rows) known.set(id, row)
  }
  return known
})

/** Why a transaction cannot be a charge of this account, by what was sent with it; undefined: it can. */
const objectionTo = ({ account_id }: RailAccount, { reference, described }: Listed): Reason | undefined => {
  if (described === undefined) return "it carries no metadata by which it could be entered"
  if (described.account !== account_id) return `its metadata names the account ${described.account}`
  if (described.environment !== "live") return `its metadata names the environment ${described.environment}`
  if (!isId("charge", reference) && !isId("verification", reference)) return "its reference is no charge's ID"
  return undefined
}

const objectionToKnown = ({ rail }: RailAccount, row: ChargeRow): Reason | undefined =>
  row.rail === rail ? undefined : `its reference is of a charge at ${row.rail}`

export const foundOf = (
  { account_id, rail, reference, listed }: Open,
  transaction: RailTransaction,
  now: number,
): Found => {
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

/** What of an account's transactions there is to enter, by customer, each in the order in which it was made. */
export const sortOut = Effect.fnUntraced(function* (of: RailAccount, ours: ReadonlyMap<string, Listed>) {
  const known = yield* findKnown(of, [...ours.keys()])
  const refused: Array<Unplaced> = []
  const open: Array<Open> = []
  let misplaced = 0
  for (const listed of ours.values()) {
    const row = known.get(listed.reference)
    const objection = row === undefined ? objectionTo(of, listed) : objectionToKnown(of, row)
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
  // Where nothing is new, what is pending is asked about on its schedule; but what would be sent again is settled now.
  const isToBeEntered = ({ isKnown, reference }: Open) => !isKnown || known.get(reference)!.state === "pending.sending"
  return { known: known.size - misplaced, refused, groups: byCustomer.filter(([, its]) => its.some(isToBeEntered)) }
})
