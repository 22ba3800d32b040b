/** Handles timers of instalment plans that are due. */
import { Effect } from "effect"
import type { instalmentMachine } from "../../../machines/instalment.ts"
import type { NowOf } from "../../base/time.ts"
import { commit } from "../../runtime/commit.ts"
import { type Due, timerHandler } from "../../runtime/fire.ts"
import { type InstalmentPlanRow, instalmentLifecycle } from "./plan.ts"
import { transitionAll } from "./transition.ts"

export const instalmentTimers = timerHandler(
  instalmentLifecycle,
  Effect.fnUntraced(function* (due: ReadonlyArray<Due<typeof instalmentMachine, InstalmentPlanRow>>, nowOf: NowOf) {
    yield* commit((yield* transitionAll(due, { nowOf })).map(({ outcome }) => outcome))
    return Effect.void
  }),
)
