/** Everything that works on the database, as one layer. */
import { Layer, type Redacted } from "effect"
import type { QuietHours } from "../machines/reminders.ts"
import { poolLayer } from "./db/Database.ts"
import { Keys } from "./key/Keys.ts"
import { Runner } from "./lifecycle/Runner.ts"
import { Nudging } from "./nudge/Nudging.ts"
import { simulatorLayer } from "./rail/simulator/Simulator.ts"
import { attemptsLayer } from "./sandbox/attempts.ts"
import { Wakeups } from "./timers/Wakeups.ts"
import { Metering } from "./usage/Metering.ts"

export const servicesLayer = (url: Redacted.Redacted<string>, quietHours: QuietHours | null = null) =>
  Layer.mergeAll(
    Keys.layer,
    Metering.layer,
    Nudging.layer(quietHours),
    Runner.layer,
    simulatorLayer.pipe(Layer.provide(attemptsLayer)),
    Wakeups.layer(url),
  ).pipe(Layer.provideMerge(poolLayer(url)))
