import { Readable } from "node:stream"
/**
 * Runs the service in this process like a separate one that can be killed. A fuse breaks its database connection in the
 * middle of any work. After that, the rest of it reaches neither the database nor a rail.
 */
import { Cause, Effect, Layer, Logger, ManagedRuntime, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { KEYS } from "../../scripts/server.ts"
import { pageUrlsLayer } from "../../src/app/pageUrls.ts"
import { servicesLayer } from "../../src/app/services.ts"
import { railCallbackWorker } from "../../src/billing/payments/callbacks.ts"
import { type RailServices, railAttempts, railQuestions } from "../../src/billing/payments/railCharges.ts"
import { chargeTimers, recoverAll } from "../../src/billing/payments/simulatorCharges.ts"
import { railRefunds, refundTimers } from "../../src/billing/refund/calls.ts"
import { subscriptionTimers } from "../../src/billing/subscription/timers.ts"
import { CheckoutLinks } from "../../src/buying/checkout/CheckoutLinks.ts"
import { checkoutTimers } from "../../src/buying/checkout/closing.ts"
import { InstalmentLinks } from "../../src/buying/instalment/InstalmentLinks.ts"
import { TenantDatabase } from "../../src/db/TenantDatabase.ts"
import { Batches } from "../../src/http/batches.ts"
import { Origin } from "../../src/http/Origin.ts"
import { StoredResponses } from "../../src/http/StoredResponses.ts"
import { every } from "../../src/process/workers.ts"
import type { OutsideRail, Rail } from "../../src/rails/rail/Rail.ts"
import { Rails } from "../../src/rails/rail/Rails.ts"
import { railCallWorker } from "../../src/rails/rail_call/worker.ts"
import { railCallbacks } from "../../src/rails/rail_callback/http.ts"
import { sweep } from "../../src/runtime/fire.ts"
import type { Callback } from "../support/rails/wire.ts"
import { type Break, startFuse } from "./fuse.ts"

const RECOVER_EVERY_MS = 250

/** No call takes longer here: connections break instead of hanging. */
const RAIL_TIMEOUT_MS = 5_000

export interface Place {
  readonly database: Redacted.Redacted<string>
  readonly rails: Readonly<Record<OutsideRail, string>>
  /** Records that it calls a rail about a reference, until the returned function is called. */
  readonly calls: (reference: string) => () => void
}

/** Messages for operators only. */
export interface Complaint {
  readonly message: string
  readonly cause: string
}

/** Time does not pass here but is moved (time.ts), which no worker notices: timers fire on request. */
const fireTimers = sweep([chargeTimers, subscriptionTimers, checkoutTimers, refundTimers])

const startWorkers = Effect.gen(function* () {
  yield* every("recovery", RECOVER_EVERY_MS, recoverAll)
  yield* railCallWorker<RailServices>([railAttempts, railQuestions, railRefunds])
  yield* railCallbackWorker
})

/** The rails, while the process lives. The rest of a dead one calls no rail. */
const whileAlive = (isDead: () => boolean, calls: Place["calls"]) =>
  Layer.effect(
    Rails,
    Effect.map(Rails, ({ of, origin }) => {
      const guarded =
        <Args extends ReadonlyArray<unknown>, A>(
          call: (...args: Args) => Effect.Effect<A>,
          referenceOf: (...args: Args) => string,
        ) =>
        (...args: Args): Effect.Effect<A> =>
          Effect.suspend(() => {
            if (isDead()) return Effect.never
            const ended = calls(referenceOf(...args))
            // A dead process's sent call may still arrive.
            const done = Effect.sync(() => void (isDead() || ended()))
            return Effect.ensuring(call(...args), done)
          })
      const named = ({ reference }: { readonly reference: string }) => reference
      const guard = (rail: Rail): Rail => ({
        ...rail,
        charge: guarded(rail.charge, named),
        openPage: guarded(rail.openPage, named),
        ask: guarded(rail.ask, (reference) => reference),
        refund: guarded(rail.refund, named),
        askRefund: guarded(rail.askRefund, (refund) => refund),
      })
      const rails = { paystack: guard(of("paystack")), flutterwave: guard(of("flutterwave")) }
      return { of: (name) => rails[name], origin }
    }),
  )

const layerOf = (url: Redacted.Redacted<string>, { rails, calls }: Place, isDead: () => boolean) => {
  const services = servicesLayer(url, KEYS)
  const requests = Layer.mergeAll(
    Batches.layer,
    StoredResponses.layer,
    CheckoutLinks.layer,
    TenantDatabase.layer(url),
    whileAlive(isDead, calls).pipe(Layer.provide(Rails.layer({ urls: rails, timeoutMs: RAIL_TIMEOUT_MS }))),
    pageUrlsLayer.pipe(Layer.provide(Layer.mergeAll(CheckoutLinks.layer, InstalmentLinks.layer))),
  ).pipe(Layer.provideMerge(Origin.layer("http://127.0.0.1")))
  return Layer.effectDiscard(startWorkers).pipe(Layer.provideMerge(requests), Layer.provideMerge(services))
}

export type Services = Layer.Success<ReturnType<typeof layerOf>>

/** Its result will never be known. */
export const LOST = Symbol("lost with the process")

export interface Service {
  readonly isDead: () => boolean
  /** Resolves when it dies. */
  readonly death: Promise<void>
  readonly kill: () => void
  /** The result of a program. LOST: the process died during it. */
  readonly run: <A, E>(program: Effect.Effect<A, E, Services>) => Promise<A | typeof LOST>
  /** Fires the due timers. */
  readonly sweep: () => Promise<unknown>
  /** The response status for a rail's callback. */
  readonly callback: (rail: OutsideRail, account: string, callback: Callback) => Promise<number | typeof LOST>
  /** Errors that it logged while it was alive. */
  readonly complaints: ReadonlyArray<Complaint>
  readonly pieces: () => number
  /** Ends its remaining fibers. */
  readonly dispose: () => Promise<void>
}

/** Starts it. It may die during the start. */
export const startService = async (place: Place, breaks: Break | undefined): Promise<Service> => {
  let dead = false
  let die = () => {}
  const death = new Promise<void>((resolve) => {
    die = resolve
  })
  const fuse = await startFuse(place.database, breaks, () => {
    dead = true
    die()
  })
  const complaints: Array<Complaint> = []
  const logger = Logger.make(({ logLevel, message, cause }) => {
    if (dead || (logLevel !== "Error" && logLevel !== "Fatal")) return
    complaints.push({ message: String(message), cause: Cause.pretty(cause) })
  })
  const runtime = ManagedRuntime.make(
    layerOf(fuse.url, place, () => dead).pipe(Layer.provideMerge(Logger.layer([logger]))),
  )
  const run = <A, E>(program: Effect.Effect<A, E, Services>): Promise<A | typeof LOST> =>
    new Promise((resolve, reject) => {
      void death.then(() => resolve(LOST))
      runtime.runPromise(program).then(resolve, (error) => (dead ? resolve(LOST) : reject(error)))
    })
  const respond = railCallbacks[0]!.methods.POST!
  await run(SqlClient.SqlClient)
  return {
    isDead: () => dead,
    death,
    kill: fuse.blow,
    run,
    sweep: () => run(fireTimers),
    callback: (rail, account, { headers, body }) =>
      run(
        Effect.match(
          respond({
            parts: [rail, account],
            search: new URLSearchParams(),
            headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
            body: Effect.succeed(Buffer.from(body)),
            requestId: "req_test",
            address: "127.0.0.1",
            upload: Readable.from([]),
            enter: () => Effect.void,
          }),
          { onSuccess: () => 200, onFailure: (refusal) => ("status" in refusal ? Number(refusal.status) : 500) },
        ),
      ),
    complaints,
    pieces: fuse.pieces,
    dispose: () => runtime.dispose(),
  }
}
