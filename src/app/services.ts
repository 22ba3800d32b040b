/** One layer of all services that use the database. */
import { Effect, Layer, type Redacted } from "effect"
import type { QuietHours } from "../../machines/reminders.ts"
import { Cell, DEFAULT_CELL } from "../base/cell.ts"
import { oneOffSubject } from "../billing/payments/createCharge.ts"
import { PaymentSubjects } from "../billing/payments/PaymentSubjects.ts"
import { Payments } from "../billing/payments/Payments.ts"
import { methodUsersLayer } from "../billing/subscription/methodUsers.ts"
import { nudgeSubjectsLayer } from "../billing/subscription/nudgeSubjects.ts"
import { subscriptionSubject } from "../billing/subscription/paymentSubject.ts"
import { remindersFollowLayer } from "../billing/subscription/reschedule.ts"
import { checkoutsLayer } from "../buying/checkout/closing.ts"
import { checkoutSubject } from "../buying/checkout/paymentSubject.ts"
import { instalmentSubject } from "../buying/instalment/paymentSubject.ts"
import { paymentLinkSubject } from "../buying/payment_link/paymentSubject.ts"
import type { Config, EncryptionKey } from "../config/Config.ts"
import { serviceLayer } from "../db/database.ts"
import { RecordKeys } from "../http/RecordKeys.ts"
import { VatRate } from "../ledger/VatRate.ts"
import { meteringLayer } from "../merchants/usage/metering.ts"
import { Nudging } from "../outbound/nudge/Nudging.ts"
import { watchdog } from "../postgres/watchdog.ts"
import { DatabaseClock } from "../process/DatabaseClock.ts"
import { Listener } from "../process/Listener.ts"
import { ProcessLease } from "../process/ProcessLease.ts"
import { QueuePoller } from "../process/QueuePoller.ts"
import { RailCredentials } from "../rails/credential/RailCredentials.ts"
import { simulatorLayer } from "../rails/rail/simulator/simulator.ts"
import { RailCallbacks } from "../rails/rail_callback/RailCallbacks.ts"
import { Wakeups } from "../runtime/Wakeups.ts"
import { attemptsLayer } from "../sandbox/attempts.ts"
import { Keys } from "../security/key/Keys.ts"
import { SharedSecrets } from "../security/secret/SharedSecrets.ts"
import { Vault } from "../security/secret/Vault.ts"

/** The ports: services that a lower folder declares and a higher folder implements. */
const ports = methodUsersLayer.pipe(
  Layer.provideMerge(Payments.layer),
  Layer.provideMerge(
    Layer.mergeAll(
      Layer.effect(
        PaymentSubjects,
        Effect.all([checkoutSubject, instalmentSubject, oneOffSubject, paymentLinkSubject, subscriptionSubject]),
      ),
      checkoutsLayer,
      nudgeSubjectsLayer,
      remindersFollowLayer,
    ),
  ),
)

/** Settings that all services of this process share. */
export interface ServiceSettings {
  readonly cell: string
  readonly quietHours: QuietHours | null
  readonly vatBps: number
}

export const serviceSettings = ({ cell, messaging, vatBps }: Config): ServiceSettings => ({
  cell,
  quietHours: messaging.quietHours,
  vatBps,
})

const DEFAULT_SETTINGS: ServiceSettings = { cell: DEFAULT_CELL, quietHours: null, vatBps: 0 }

/** Builds all services on the database at `url`. `encryptionKeys`: newest first. */
export const servicesLayer = (
  url: Redacted.Redacted<string>,
  encryptionKeys: ReadonlyArray<EncryptionKey>,
  { cell, quietHours, vatBps }: ServiceSettings = DEFAULT_SETTINGS,
) =>
  ports.pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        Keys.layer,
        QueuePoller.layer(url),
        meteringLayer,
        Nudging.layer(quietHours),
        RailCallbacks.layer,
        RailCredentials.layer,
        RecordKeys.layer,
        ProcessLease.layer,
        simulatorLayer.pipe(Layer.provide(attemptsLayer)),
        Wakeups.layer(url),
      ),
    ),
    Layer.provideMerge(SharedSecrets.layer),
    Layer.provideMerge(
      Layer.mergeAll(
        Listener.layer(url),
        DatabaseClock.layer.pipe(
          Layer.provideMerge(Layer.effectDiscard(watchdog(url))),
          Layer.provideMerge(serviceLayer(url)),
        ),
        Vault.layer(encryptionKeys),
        Layer.succeed(VatRate, vatBps),
        Layer.succeed(Cell, cell),
      ),
    ),
  )
