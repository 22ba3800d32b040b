/** Making nudges, in the transaction of what they tell of; they are sent once it is committed (src/nudge/send.ts). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { begin, stateName } from "../../machines/decide.ts"
import { type Channel, nudgeMachine } from "../../machines/nudge.ts"
import type { Reminder } from "../../machines/reminders.ts"
import { records } from "../db/records.ts"
import type { Tenant } from "../db/tenant.ts"
import { appendEvents } from "../event/Events.ts"
import { newId } from "../ids.ts"
import { recordTransitions } from "../lifecycle/commit.ts"
import { CHANNELS } from "../plan/api.ts"
import { tell } from "./commit.ts"
import { type Template, wordsFor } from "./messages.ts"
import { machineColumns, nudgeLifecycle } from "./Nudge.ts"
import { hashToken, Nudging } from "./Nudging.ts"
import { insertNudges, type NudgeRow } from "./rows.ts"

/** The subscription that a nudge is about, as far as its words need it. */
export interface About {
  readonly subscriptionId: string
  readonly planId: string
  /** What is owed now, else what is charged next. */
  readonly amountKobo: number
  /** When it is charged; null where nobody knows. */
  readonly dueAt: number | null
}

/** A nudge to be made. */
export interface Wanted extends Tenant {
  readonly customerId: string
  readonly testClockId: string | null
  readonly about: About | null
  readonly template: Template
  /** Of a custom one. */
  readonly message: string | null
  /** null: those of the plan's reminders. */
  readonly channels: ReadonlyArray<Channel> | null
  readonly source: NudgeRow["source"]
  /** Of a scheduled one: which it is, and the instant that it is counted from. */
  readonly reminder: (Pick<Reminder, "rule" | "day"> & { readonly of: number }) | null
  /** Not to be sent before. */
  readonly sendAt: number | null
  /** Now, in the customer's clock. */
  readonly at: number
}

interface Facts {
  readonly n: number
  readonly name: string
  readonly phone: string | null
  readonly email: string | null
  readonly business_name: string
  readonly plan: string | null
  readonly plan_channels: ReadonlyArray<Channel> | null
}

const WANTED = { n: "integer", account_id: "text", livemode: "boolean", customer_id: "text", plan_id: "text" } as const

const readFacts = (wanted: ReadonlyArray<Wanted>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = wanted.map(({ account_id, livemode, customerId, about }, n) => ({
      n,
      account_id,
      livemode,
      customer_id: customerId,
      plan_id: about?.planId ?? null,
    }))
    return yield* sql<Facts>`
      SELECT r.n, c.name, c.phone, c.email, a.business_name, p.name AS plan, p.reminders->'channels' AS plan_channels
      FROM ${records(sql, rows, WANTED)} r
      JOIN customer c ON (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.customer_id)
      JOIN account a ON a.id = r.account_id
      LEFT JOIN plan p ON (p.account_id, p.livemode, p.id) = (r.account_id, r.livemode, r.plan_id)`
  })

const make = (wanted: Wanted, facts: Facts, token: (nudge: string) => string) => {
  const { phone, email, name, business_name: business, plan } = facts
  const preferred = wanted.channels ?? facts.plan_channels ?? CHANNELS
  const to: Readonly<Record<Channel, string | null>> = { whatsapp: phone, sms: phone, email }
  const channels = preferred.filter((channel) => to[channel] !== null)
  const input = { at: wanted.at, channels, sendAt: wanted.sendAt }
  const decision = begin(nudgeMachine, input)
  const state = stateName(decision.snapshot)
  const id = newId("nudge")
  const row: NudgeRow = {
    account_id: wanted.account_id,
    livemode: wanted.livemode,
    id,
    customer_id: wanted.customerId,
    subscription_id: wanted.about?.subscriptionId ?? null,
    test_clock_id: wanted.testClockId,
    source: wanted.source,
    template: wanted.template,
    reminder_rule: wanted.reminder?.rule ?? null,
    reminder_day: wanted.reminder?.day ?? null,
    reminder_of: wanted.reminder?.of ?? null,
    contacts: Object.fromEntries(channels.map((channel) => [channel, to[channel]!])),
    message: wordsFor(wanted.template, {
      name,
      business,
      plan,
      amountKobo: wanted.about?.amountKobo ?? null,
      dueAt: wanted.about?.dueAt ?? null,
      message: wanted.message,
    }),
    link_token_hash: channels.length === 0 ? null : hashToken(token(id)),
    sender: null,
    taken_at: null,
    told: null,
    message_id: null,
    billed_as_overage: false,
    created_at: wanted.at,
    version: 1,
    ...machineColumns(state, decision.snapshot.context, preferred[0]!),
  }
  const before: NudgeRow = { ...row, state: "created", version: 0 }
  const transition = { row: before, event: { type: "create", ...input }, decision, to: state, version: 1 }
  return { ...tell(transition, row, wanted.at), transition }
}

/** Makes nudges and answers them; a reminder that was made before is left out. */
export const makeNudges = (wanted: ReadonlyArray<Wanted>) =>
  Effect.gen(function* () {
    if (wanted.length === 0) return []
    const { token } = yield* Nudging
    const facts = [...(yield* readFacts(wanted))].sort((a, b) => a.n - b.n)
    const made = facts.map((its) => make(wanted[its.n]!, its, token))
    const inserted = yield* insertNudges(made.map(({ row }) => row))
    const fresh = made.filter(({ row }) => inserted.has(row.id))
    yield* recordTransitions(
      nudgeLifecycle,
      fresh.map(({ transition }) => transition),
    )
    yield* appendEvents(fresh.flatMap(({ events }) => events))
    return fresh.map(({ row }) => row)
  })
