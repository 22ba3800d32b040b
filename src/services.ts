/** Everything that works on the database, as one layer. */
import { Effect, Layer, type Redacted } from "effect"
import type { QuietHours } from "../machines/reminders.ts"
import { Cell, DEFAULT_CELL } from "./cell.ts"
import { checkoutsLayer } from "./checkout/closing.ts"
import { checkoutOwner } from "./checkout/owner.ts"
import { ChargeOwners } from "./collecting/ChargeOwners.ts"
import { oneOffOwner } from "./collecting/oneOff.ts"
import { Payments } from "./collecting/Payments.ts"
import type { Config, EncryptionKey } from "./config/Config.ts"
import { RailCredentials } from "./credential/RailCredentials.ts"
import { serviceLayer } from "./db/database.ts"
import { closeWhenSilent } from "./db/silence.ts"
import { RecordKeys } from "./http/RecordKeys.ts"
import { instalmentOwner } from "./instalment/owner.ts"
import { Keys } from "./key/Keys.ts"
import { VatRate } from "./ledger/VatRate.ts"
import { Nudging } from "./nudge/Nudging.ts"
import { paymentLinkOwner } from "./payment_link/owner.ts"
import { DatabaseClock } from "./process/DatabaseClock.ts"
import { Lookout } from "./process/Lookout.ts"
import { Notices } from "./process/Notices.ts"
import { Runner } from "./process/Runner.ts"
import { simulatorLayer } from "./rail/simulator/simulator.ts"
import { RailCallbacks } from "./rail_callback/RailCallbacks.ts"
import { Wakeups } from "./runtime/Wakeups.ts"
import { attemptsLayer } from "./sandbox/attempts.ts"
import { SharedSecrets } from "./secret/SharedSecrets.ts"
import { Vault } from "./secret/Vault.ts"
import { methodUsersLayer } from "./subscription/methodUsers.ts"
import { nudgeSubjectsLayer } from "./subscription/nudgeSubjects.ts"
import { subscriptionOwner } from "./subscription/owner.ts"
import { remindersFollowLayer } from "./subscription/reschedule.ts"
import { meteringLayer } from "./usage/metering.ts"

/** What the nouns ask of each other against the direction of their imports. */
const ports = methodUsersLayer.pipe(
  Layer.provideMerge(Payments.layer),
  Layer.provideMerge(
    Layer.mergeAll(
      Layer.effect(
        ChargeOwners,
        Effect.all([checkoutOwner, instalmentOwner, oneOffOwner, paymentLinkOwner, subscriptionOwner]),
      ),
      checkoutsLayer,
      nudgeSubjectsLayer,
      remindersFollowLayer,
    ),
  ),
)

/** What all that runs here has in common. */
export interface HouseRules {
  readonly cell: string
  readonly quietHours: QuietHours | null
  readonly vatBps: number
}

export const houseRules = ({ cell, messaging, vatBps }: Config): HouseRules => ({
  cell,
  quietHours: messaging.quietHours,
  vatBps,
})

const NO_RULES: HouseRules = { cell: DEFAULT_CELL, quietHours: null, vatBps: 0 }

/** `encryptionKeys`: newest first. */
export const servicesLayer = (
  url: Redacted.Redacted<string>,
  encryptionKeys: ReadonlyArray<EncryptionKey>,
  { cell, quietHours, vatBps }: HouseRules = NO_RULES,
) =>
  ports.pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        Keys.layer,
        Lookout.layer(url),
        meteringLayer,
        Nudging.layer(quietHours),
        RailCallbacks.layer,
        RailCredentials.layer,
        RecordKeys.layer,
        Runner.layer,
        simulatorLayer.pipe(Layer.provide(attemptsLayer)),
        Wakeups.layer(url),
      ),
    ),
    Layer.provideMerge(SharedSecrets.layer),
    Layer.provideMerge(
      Layer.mergeAll(
        Notices.layer(url),
        DatabaseClock.layer.pipe(
          Layer.provideMerge(Layer.effectDiscard(closeWhenSilent(url))),
          Layer.provideMerge(serviceLayer(url)),
        ),
        Vault.layer(encryptionKeys),
        Layer.succeed(VatRate, vatBps),
        Layer.succeed(Cell, cell),
      ),
    ),
  )
