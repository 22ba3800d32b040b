/** Creates test events (decision I9): any event type, with an existing or a sample object. No state changes. */
import { Effect } from "effect"
import { findObject } from "../app/objects.ts"
import type { Json } from "../base/json.ts"
import { invalid, noSuchReference } from "../base/problem.ts"
import { currentTime } from "../base/wallClock.ts"
import { visibleClocks } from "../billing/clock/clock.ts"
import { type Tenant, tenantOf } from "../db/tenant.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { leastBytes, MAX_DATA_BYTES } from "../outbound/event/data.ts"
import { appendTestEvent } from "../outbound/event/events.ts"
import { sampleFor } from "./samples.ts"

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** Merges `over` into `object`, field by field. */
const merge = (object: Json, over: Json): Json => {
  const merged: Record<string, unknown> = { ...object }
  for (const [name, value] of Object.entries(over)) {
    const before = object[name]
    merged[name] = isObject(before) && isObject(value) ? merge(before, value) : value
  }
  return merged
}

/** Returns the time of the object's clock; undefined if the clock, and so the object, is being deleted. */
const timeOf = Effect.fnUntraced(function* (tenant: Tenant, clockId: string | null) {
  if (clockId === null) return currentTime()
  return (yield* visibleClocks.find(tenant, [clockId])).get(clockId)?.frozen_at
})

export const triggerEvent = Effect.fn("sandbox.trigger")(function* (
  tenant: Tenant,
  { type, object: id, overrides }: { readonly type: string; readonly object?: string; readonly overrides?: Json },
) {
  const found = id === undefined ? undefined : yield* findObject(tenant, id)
  if (id !== undefined && found === undefined) return yield* noSuchReference("object", id, "object")
  const testClockId = found?.testClockId ?? null
  const at = yield* timeOf(tenant, testClockId)
  if (at === undefined) return yield* noSuchReference("object", id!, "object")
  const object = merge(found?.object ?? sampleFor(type, at), overrides ?? {})
  const bytes = leastBytes(object)
  // Without overrides a large object is shortened, as in any event.
  if (overrides !== undefined && bytes > MAX_DATA_BYTES)
    return yield* invalid(
      "overrides",
      `overrides must leave the event's data at most ${MAX_DATA_BYTES} bytes as JSON in UTF-8; merged into the object they make it ${bytes} bytes.`,
    )
  return appendTestEvent(yield* unitOfWork, {
    ...tenantOf(tenant),
    type,
    object,
    previous: {},
    at,
    test_clock_id: testClockId,
  })
})
