/** Test events (spec 4.12, decision I9): an event of any type around a given or a made-up object. No state changes. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { appendEvents } from "../event/Events.ts"
import { noSuchReference } from "../problem.ts"
import { sampleFor } from "./samples.ts"

type Json = Readonly<Record<string, unknown>>

/** An object of the sandbox as the API shows it, and the clock that its events belong to. */
export interface Found {
  readonly object: Json
  readonly testClockId: string | null
}

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** `over` laid over `object`, field by field. */
const merge = (object: Json, over: Json): Json => {
  const merged: Record<string, unknown> = { ...object }
  for (const [name, value] of Object.entries(over)) {
    const before = object[name]
    merged[name] = isObject(before) && isObject(value) ? merge(before, value) : value
  }
  return merged
}

export const triggerEvent = (
  tenant: Tenant,
  input: { readonly type: string; readonly object?: string; readonly overrides?: Json },
  found: Found | undefined,
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    if (input.object !== undefined && found === undefined)
      return yield* noSuchReference("object", input.object, "object")
    const testClockId = found?.testClockId ?? null
    const [clock] =
      testClockId === null
        ? []
        : yield* sql<{ frozen_at: number }>`
            SELECT frozen_at FROM test_clock
            WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ${testClockId}`
    const at = clock?.frozen_at ?? Date.now()
    const object = merge(found?.object ?? sampleFor(input.type, at), input.overrides ?? {})
    const { account_id, livemode } = tenant
    const made = { account_id, livemode, type: input.type, object, previous: {}, at }
    const [event] = yield* appendEvents([{ ...made, test_clock_id: testClockId }])
    return event!
  })
