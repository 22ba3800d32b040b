/** The transitions that made an entry of the books. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { triggerOf } from "../../machines/decide.ts"
import { dayOf, formatInstant } from "../base/time.ts"
import type { EntryEvent } from "./postings.ts"

interface Step {
  readonly actor_id: string
  readonly version: number
  readonly at: number
  readonly event: string
  /** The charge of its event; null: the event has none. */
  readonly charge_id: string | null
  readonly from_state: string
  readonly to_state: string
  readonly effects: ReadonlyArray<string>
}

/** What an entry says about its cause. */
interface Requested {
  readonly event: EntryEvent
  readonly charge_id: string | null
  readonly subscription_id: string | null
  readonly instalment_plan_id: string | null
  /** Days since the epoch. */
  readonly occurred_day: number
}

/** Reads the journals of actors, by actor. */
export const readSteps = Effect.fnUntraced(function* (account: string, actors: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Step>`
    SELECT actor_id, version, at, event->>'type' AS event, event->>'chargeId' AS charge_id, from_state, to_state, effects FROM lifecycle_journal
    WHERE account_id = ${account} AND livemode IN (true, false) AND actor_id = ANY(${actors}::text[]) ORDER BY actor_id, version`
  return Map.groupBy(rows, ({ actor_id }) => actor_id)
})

const renderStep = ({ actor_id, version, at, event, from_state, to_state, effects }: Step) => ({
  actor: actor_id,
  version,
  at: formatInstant(at),
  event: triggerOf(event),
  from: from_state,
  to: to_state,
  effects,
})

/** The effect by which a subscription's or an instalment plan's machine requests each entry (machines/). */
const REQUESTED_BY: Readonly<Partial<Record<EntryEvent, string>>> = {
  paid: "post paid",
  owed: "post owed",
  overdue_paid: "post overdue_paid",
  written_off: "post written_off",
  waived: "post waived",
  service_ended: "endService cancelled",
  service_paused: "endService paused",
  service_delivered: "endService delivered",
  deposit_paid: "post deposit_paid",
  goods_delivered: "post goods_delivered",
  deposit_cancelled: "post deposit_cancelled",
  refund_due: "post refund_due",
}

/** Returns the transitions that made an entry: those of its charge, and the one of its subscription or instalment plan that requested it. */
export const stepsOf = (entry: Requested, journals: ReadonlyMap<string, ReadonlyArray<Step>>) => {
  const charge = entry.charge_id === null ? [] : (journals.get(entry.charge_id) ?? [])
  const effect = REQUESTED_BY[entry.event]
  const actor = entry.subscription_id ?? entry.instalment_plan_id
  const candidates =
    actor === null || effect === undefined
      ? []
      : (journals.get(actor) ?? []).filter(({ effects }) => effects.includes(effect))
  const request =
    candidates.find(({ charge_id }) => charge_id !== null && charge_id === entry.charge_id) ??
    candidates.findLast(({ at }) => dayOf(at) <= entry.occurred_day)
  return [...charge, ...(request === undefined ? [] : [request])].map(renderStep)
}
