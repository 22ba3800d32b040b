/** Saying that a part of an allowance is used up (decision K3). */
import { Effect } from "effect"
import { emailOwner } from "../account/ownerEmail.ts"
import { appendEvents } from "../event/events.ts"
import type { Threshold } from "./allowances.ts"
import type { UsageThreshold } from "./api.ts"

type Used = typeof UsageThreshold.Type

/** Tells the account and its owner, once, that a part of an allowance is used up. In the running transaction. */
export const announceThresholds = Effect.fnUntraced(function* (
  account: string,
  metric: Used["metric"],
  reached: ReadonlyArray<Threshold>,
  count: Pick<Used, "used" | "included">,
) {
  const at = Date.now()
  const what = metric === "nudges" ? "nudges" : "write requests"
  yield* appendEvents(
    reached.map((threshold) => ({
      account_id: account,
      livemode: true,
      type: "usage.threshold_reached",
      object: { object: "usage_threshold", metric, threshold, ...count },
      previous: {},
      test_clock_id: null,
      at,
    })),
  )
  for (const threshold of reached) {
    const body = `You have used ${count.used} of the ${count.included} ${what} that your plan includes this month (${threshold} %). What goes beyond is billed, not blocked.`
    yield* emailOwner(
      { account_id: account, livemode: true },
      { subject: `${threshold} % of this month's ${what} are used`, body },
    )
  }
})
