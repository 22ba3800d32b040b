/** Creates nudges in the transaction that causes them. They are sent after the commit (src/outbound/nudge/send.ts). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { CHANNELS, type Channel, type NudgeTemplate, nudgeMachine } from "../../../machines/nudge.ts"
import type { Reminder } from "../../../machines/reminders.ts"
import { newId } from "../../base/ids.ts"
import { rowsAsTable } from "../../db/rows.ts"
import { type Ref, type Tenant, tenantOf } from "../../db/tenant.ts"
import { start } from "../../runtime/lifecycle.ts"
import { created, type Outcome } from "../../runtime/outcome.ts"
import { hashToken } from "../../security/secret/linkTokens.ts"
import { announce } from "./announce.ts"
import { wordsFor } from "./messages.ts"
import { type NudgeRow, nudgeLifecycle, nudges } from "./nudge.ts"

/** The facts of a nudge's subscription that its text needs. */
export interface About {
  readonly subscriptionId: string
  readonly planId: string
  /** The amount due now, else the next charge; null if there is neither. */
  readonly amountKobo: number | null
  /** When it is charged; null if unknown. */
  readonly dueAt: number | null
}

/** The facts of a nudge's instalment plan. It has no merchant's plan, and so no reminder settings. */
export interface AboutInstalments {
  readonly instalmentPlanId: string
  /** The name of the goods. */
  readonly goods: string
  /** The amount that is due or was missed. */
  readonly amountKobo: number
  readonly dueAt: number
  readonly isLate: boolean
}

/** The input of a new nudge. */
export interface NudgeRequest extends Tenant {
  readonly customerId: string
  readonly testClockId: string | null
  readonly about: About | AboutInstalments | null
  readonly template: NudgeTemplate
  /** The text of a custom nudge. */
  readonly message: string | null
  /** null: the channels of the plan's reminders. */
  readonly channels: ReadonlyArray<Channel> | null
  readonly source: NudgeRow["source"]
  /** For a scheduled nudge: its rule and day, and the instant that they are counted from. */
  readonly reminder: (Pick<Reminder, "rule" | "day"> & { readonly of: number }) | null
  /** The earliest time to send it. */
  readonly sendAt: number | null
  /** Now, in the customer's clock. */
  readonly at: number
}

/** The recipient of a nudge, with the names of the business and the plan. */
interface Addressee {
  readonly customer_id: string
  readonly plan_id: string | null
  readonly name: string
  readonly phone: string | null
  readonly email: string | null
  readonly business_name: string
  readonly plan: string | null
  readonly plan_channels: ReadonlyArray<Channel> | null
}

/** By customer and plan. */
export type Addressees = ReadonlyMap<string, Addressee>

const nameOf = (customerId: string, planId: string | null): string => `${customerId} ${planId ?? ""}`

export const addresseesOf = (all: ReadonlyArray<Addressee>): Addressees =>
  new Map(all.map((one) => [nameOf(one.customer_id, one.plan_id), one]))

const WANTED = { account_id: "text", livemode: "boolean", customer_id: "text", plan_id: "text" } as const

/** Reads the addressees of these customers and plans. */
export const readAddressees = Effect.fnUntraced(function* (
  wanted: ReadonlyArray<Tenant & { readonly customerId: string; readonly planId: string | null }>,
) {
  if (wanted.length === 0) return new Map<string, Addressee>()
  const sql = yield* SqlClient.SqlClient
  const rows = wanted.map(({ account_id, livemode, customerId: customer_id, planId: plan_id }) => ({
    account_id,
    livemode,
    customer_id,
    plan_id,
  }))
  const found = yield* sql<Addressee>`
    SELECT r.customer_id, r.plan_id, c.name, c.phone, c.email, a.business_name, p.name AS plan, p.reminders->'channels' AS plan_channels
    FROM ${rowsAsTable(rows, WANTED)} r
    CROSS JOIN LATERAL (SELECT * FROM customer WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.customer_id) OFFSET 0) c
    CROSS JOIN LATERAL (SELECT business_name FROM account WHERE id = r.account_id OFFSET 0) a
    LEFT JOIN LATERAL (SELECT * FROM plan WHERE (account_id, livemode, id) = (r.account_id, r.livemode, r.plan_id) OFFSET 0) p ON true`
  return addresseesOf(found)
})

/** Builds a new nudge; undefined if its customer does not exist any more. The commit skips a reminder that already exists. */
export const newNudge = (
  request: NudgeRequest,
  addressees: Addressees,
  token: (nudge: Ref) => string,
): { readonly row: NudgeRow; readonly outcome: Outcome } | undefined => {
  const { about } = request
  const instalments = about !== null && "instalmentPlanId" in about ? about : null
  const subscription = about !== null && "subscriptionId" in about ? about : null
  const addressee = addressees.get(nameOf(request.customerId, subscription?.planId ?? null))
  if (addressee === undefined) return undefined
  const { phone, email, name, business_name: business, plan } = addressee
  const preferred = request.channels ?? addressee.plan_channels ?? CHANNELS
  const to: Readonly<Record<Channel, string | null>> = { whatsapp: phone, sms: phone, email }
  const channels = preferred.filter((channel) => to[channel] !== null)
  const first = start(nudgeMachine, { type: "create", at: request.at, channels, sendAt: request.sendAt })
  const id = newId("nudge", { test_clock_id: request.testClockId, at: request.at })
  const row: NudgeRow = {
    account_id: request.account_id,
    livemode: request.livemode,
    id,
    customer_id: request.customerId,
    subscription_id: subscription?.subscriptionId ?? null,
    instalment_plan_id: instalments?.instalmentPlanId ?? null,
    test_clock_id: request.testClockId,
    source: request.source,
    template: request.template,
    reminder_rule: request.reminder?.rule ?? null,
    reminder_day: request.reminder?.day ?? null,
    reminder_of: request.reminder?.of ?? null,
    contacts: Object.fromEntries(channels.map((channel) => [channel, to[channel]!])),
    message: wordsFor(request.template, {
      name,
      business,
      plan: instalments?.goods ?? plan,
      amountKobo: about?.amountKobo ?? null,
      dueAt: about?.dueAt ?? null,
      instalment: instalments === null ? null : instalments.isLate ? "missed" : "due",
      message: request.message,
    }),
    link_token_hash: channels.length === 0 ? null : hashToken(token({ ...tenantOf(request), id })),
    runner: null,
    announced: null,
    message_id: null,
    channel: channels[0] ?? preferred[0]!,
    billed_as_overage: false,
    created_at: request.at,
    version: first.version,
    ...nudges.snapshotColumns(first.to, first.decision.snapshot.context),
  }
  const { row: announced, events } = announce({ ...first, row }, row, request.at)
  return { row: announced, outcome: created(nudgeLifecycle, first, announced, { events }) }
}
