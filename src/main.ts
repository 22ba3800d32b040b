/** The server: the only place that combines all layers. */
import { Cause, Context, Effect, Exit, Fiber, Layer, type Redacted, Result } from "effect"
import { endpoints, publicRoutes } from "./app/api.ts"
import { dryRunLayer } from "./app/dryRun.ts"
import { expanders } from "./app/objects.ts"
import { observabilityLayer, serveMetrics } from "./app/observability.ts"
import { pageUrlsLayer } from "./app/pageUrls.ts"
import { serviceSettings, servicesLayer } from "./app/services.ts"
import { Cell } from "./base/cell.ts"
import { DAY_MS, MINUTE_MS } from "./base/time.ts"
import { clocksAgree } from "./base/wallClock.ts"
import { clockWorker } from "./billing/clock/clockWorker.ts"
import { CLOCK_STEPS, expiryWorker } from "./billing/clock/deletion.ts"
import { railCallbackWorker } from "./billing/payments/callbacks.ts"
import { type RailServices, railAttempts, railQuestions } from "./billing/payments/railCharges.ts"
import { chargeTimers, recoverAll, recoverCharges } from "./billing/payments/simulatorCharges.ts"
import { railRefunds, refundTimers } from "./billing/refund/calls.ts"
import { reminderWorker } from "./billing/subscription/reschedule.ts"
import { subscriptionTimers } from "./billing/subscription/timers.ts"
import { CheckoutLinks } from "./buying/checkout/CheckoutLinks.ts"
import { checkoutTimers } from "./buying/checkout/closing.ts"
import { InstalmentLinks } from "./buying/instalment/InstalmentLinks.ts"
import { PlanStartLimit } from "./buying/instalment/PlanStartLimit.ts"
import { ProductViews } from "./buying/instalment/ProductViews.ts"
import { instalmentTimers } from "./buying/instalment/timers.ts"
import { LiveSimulation } from "./buying/payment_page/context.ts"
import { disableForgottenFences } from "./cells/fence.ts"
import { nameCell } from "./cells/identity.ts"
import { purgeKept } from "./cells/putAside.ts"
import { type Config, ConfigProblem } from "./config/Config.ts"
import { readConfig } from "./config/readConfig.ts"
import { DashboardSettings } from "./dashboard/DashboardSettings.ts"
import { LiveParts } from "./dashboard/LiveParts.ts"
import { databaseUrl, poolLayer } from "./db/database.ts"
import { TenantDatabase } from "./db/TenantDatabase.ts"
import { Batches } from "./http/batches.ts"
import { PURGE_EVERY_MS, purge } from "./http/idempotency.ts"
import { listen } from "./http/listener.ts"
import { Origin } from "./http/Origin.ts"
import { RequestLog } from "./http/RequestLog.ts"
import { becomesReady } from "./http/readiness.ts"
import { StoredResponses } from "./http/StoredResponses.ts"
import { createApp } from "./http/server.ts"
import { MERGE_EVERY_MS, mergeDayTotals } from "./ledger/dayTotals.ts"
import { recogniseDays, recogniseOnClock } from "./ledger/recognition.ts"
import { demoKey, demoOwner } from "./merchants/account/demo.ts"
import { letterWorker } from "./merchants/account/letterWorker.ts"
import { InvoiceLinks } from "./merchants/invoice/InvoiceLinks.ts"
import { drawLastMonth, invoiceTimers } from "./merchants/invoice/invoices.ts"
import { Pdfs } from "./merchants/invoice/Pdfs.ts"
import { purgeSessions } from "./merchants/member/sessions.ts"
import { createLink, purgeSignIns } from "./merchants/member/signIns.ts"
import { messengerLayer } from "./outbound/messenger/layer.ts"
import { nudgeWorker, sendOnClock } from "./outbound/nudge/send.ts"
import { nudgeTimers } from "./outbound/nudge/timers.ts"
import { deliveryWorker } from "./outbound/webhook/deliveryWorker.ts"
import { Sender } from "./outbound/webhook/Sender.ts"
import { databaseReason } from "./postgres/errors.ts"
import { migrate } from "./postgres/migrate.ts"
import { Deletions } from "./process/deletion/Deletions.ts"
import { SANDBOX } from "./process/deletion/deletion.ts"
import { deletionWorker } from "./process/deletion/worker.ts"
import { outliveOutput } from "./process/output.ts"
import { every } from "./process/workers.ts"
import { purgeReplaced } from "./rails/credential/credentials.ts"
import { Rails } from "./rails/rail/Rails.ts"
import { railCallWorker } from "./rails/rail_call/worker.ts"
import { countsWorker } from "./runtime/recounting.ts"
import { timerWorker } from "./runtime/timerWorker.ts"
import { SANDBOX_STEPS } from "./sandbox/reset.ts"
import { declaredEvents as events } from "./sandbox/samples.ts"
import { encryptionKeys } from "./security/secret/encryptionKeys.ts"

/** Work that is not finished this long after SIGTERM is left to the next start. */
const SHUTDOWN_LIMIT_MS = 20_000

/** How often a process completes rail calls of dead processes, and those that it dropped itself. */
const RECOVER_EVERY_MS = 2_000

/** Charges first: a rail's known answers come before decisions about them. */
const TIMERS_ON_CLOCKS = [chargeTimers, subscriptionTimers, checkoutTimers, instalmentTimers, nudgeTimers] as const

/** Starts the background work, which runs while the scope is open. */
const startWorkers = Effect.gen(function* () {
  yield* deletionWorker(({ id }) => (id === SANDBOX ? SANDBOX_STEPS : CLOCK_STEPS))
  yield* expiryWorker
  yield* reminderWorker
  yield* timerWorker([...TIMERS_ON_CLOCKS, invoiceTimers, refundTimers])
  yield* railCallWorker<RailServices>([railAttempts, railQuestions, railRefunds])
  yield* railCallbackWorker
  yield* every("invoices", MINUTE_MS, drawLastMonth)
  yield* every("recognition", MINUTE_MS, recogniseDays)
  yield* every("totals of days", MERGE_EVERY_MS, mergeDayTotals)
  yield* every("replaced credentials", MINUTE_MS, purgeReplaced)
  yield* every("what moves of accounts have left", MINUTE_MS, Effect.andThen(purgeKept, disableForgottenFences))
  yield* countsWorker
  yield* deliveryWorker
  yield* nudgeWorker
  yield* letterWorker
  yield* clockWorker({
    handlers: TIMERS_ON_CLOCKS,
    recover: (testClockId) => recoverCharges({ testClockId }),
    send: sendOnClock,
    arrive: recogniseOnClock,
  })
})

/** Serves until the scope closes; returns its address and its origin in links. */
const serve = Effect.fnUntraced(function* (
  config: Config,
  url: Redacted.Redacted<string>,
  demoKey: string | undefined,
) {
  const { address, origin, serve, stop } = yield* listen(config)
  yield* every("recovery", RECOVER_EVERY_MS, recoverAll)
  yield* every("idempotency records", PURGE_EVERY_MS, purge)
  yield* every("ended sign-ins", MINUTE_MS, Effect.andThen(purgeSignIns, purgeSessions))
  const requests = yield* Layer.build(
    Layer.mergeAll(
      Batches.layer,
      RequestLog.layer,
      StoredResponses.layer,
      dryRunLayer,
      CheckoutLinks.layer,
      PlanStartLimit.layer(config.rateLimits.instalmentPlans),
      DashboardSettings.layer(!config.production && config.messaging.smtp === undefined),
      Deletions.layer,
      InstalmentLinks.layer,
      InvoiceLinks.layer,
      LiveParts.layer,
      Layer.succeed(LiveSimulation, { allowed: !config.production }),
      Pdfs.layer(config.seller),
      Rails.layer(config.rails),
      TenantDatabase.layer(url),
      Sender.layer(config.webhooks),
      ProductViews.layer,
      messengerLayer(config.messaging),
      pageUrlsLayer.pipe(Layer.provide(Layer.mergeAll(CheckoutLinks.layer, InstalmentLinks.layer))),
    ).pipe(Layer.provideMerge(Origin.layer(origin))),
  )
  const { transport, rateLimits, inFlight } = config
  const app = yield* Effect.provideContext(
    createApp({ endpoints, events, publicRoutes, expanders, transport, rateLimits, inFlight, origin, demoKey }),
    requests,
  )
  yield* serve(Effect.provideContext(app, requests))
  if (config.workers > 0) yield* Effect.provideContext(startWorkers, requests)
  const { stop: endStreams } = Context.get(requests, LiveParts)
  // Shutdown order: the streams of open pages end and new requests stop first; then the workers stop, while requests in progress finish.
  yield* Effect.addFinalizer(() => Effect.andThen(endStreams, stop))
  return { address, origin }
})

type Served = Effect.Success<ReturnType<typeof serve>>

/** The first command to try; if plain HTTP is refused and no TLS is configured, what to set up. */
const firstCall = (origin: string, key: string, insecure: boolean): ReadonlyArray<string> =>
  insecure || origin.startsWith("https:")
    ? [
        "Try it:",
        `  curl ${origin}/sandbox/v1/customers -H 'Authorization: Bearer ${key}' \\`,
        '    -H \'Content-Type: application/json\' -d \'{"name": "Ada Obi", "email": "ada@example.com"}\'',
      ]
    : [
        "Plain HTTP is refused: set TLS_CERT and TLS_KEY, or put a proxy with TLS before it",
        "(TRUST_PROXY, PUBLIC_URL), or listen on a loopback address.",
      ]

/** How long the link of a start signs in. */
const LINK_MS = DAY_MS

/** A link that signs in once as the demo account's owner. */
const demoLink = Effect.fnUntraced(function* (origin: string) {
  const owner = yield* demoOwner
  return owner === undefined ? undefined : `${origin}/dashboard/links/${yield* createLink(owner, LINK_MS)}`
})

const greeting = (
  { address, origin }: Served,
  key: string | undefined,
  link: string | undefined,
  insecure: boolean,
): string =>
  [
    ...(address === origin ? [] : [`Listens:   ${address}`]),
    `Live:      ${origin}/v1`,
    `Sandbox:   ${origin}/sandbox/v1`,
    `Reference: ${origin}/docs`,
    `Dashboard: ${link ?? `${origin}/dashboard`}${link === undefined ? "" : " (signs in once)"}`,
    ...(key === undefined ? [] : [`Demo key:  ${key}`, "", ...firstCall(origin, key, insecure)]),
    "",
  ].join("\n")

const program = (config: Config, development: boolean) =>
  Effect.gen(function* () {
    const keys = yield* encryptionKeys(config)
    const url = yield* databaseUrl(config)
    yield* Effect.provide(Effect.andThen(migrate, nameCell()), [poolLayer(url, 1), Layer.succeed(Cell, config.cell)])
    if (config.production && config.publicUrl === undefined)
      yield* Effect.logWarning("PUBLIC_URL is not set: links in messages and answers lead to HOST and PORT")
    yield* Effect.gen(function* () {
      // Creates the demo account only if the clocks agree: a start with a wrong clock shows no key.
      const key = development && !config.production && clocksAgree() ? yield* demoKey(config.dataDir) : undefined
      const served = yield* serve(config, url, key)
      const { metricsPort, metricsHost } = config.observability
      if (metricsPort !== undefined) yield* serveMetrics(metricsPort, metricsHost)
      yield* becomesReady
      const link = key === undefined ? undefined : yield* demoLink(served.origin)
      yield* Effect.sync(() => process.stdout.write(greeting(served, key, link, config.transport.allowInsecureHttp)))
      return yield* Effect.never
      // The workers stop before the services that they use.
    }).pipe(
      Effect.scoped,
      Effect.provide(
        servicesLayer(url, keys, serviceSettings(config)).pipe(
          Layer.provideMerge(observabilityLayer(config.observability)),
        ),
      ),
    )
  }).pipe(Effect.scoped)

/** Why the start failed, in one line. */
const oneLine = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  if (error instanceof ConfigProblem) return error.message
  const reason = databaseReason(error)
  if (reason !== undefined) return `The database cannot be used (DATABASE_URL): ${reason}`
  return `The start failed: ${(error as { readonly message?: string }).message ?? String(error)}`.split("\n")[0]!
}

const start = (): void => {
  outliveOutput()
  const development = process.argv.includes("--development")
  const read = Effect.runSync(Effect.result(readConfig(process.env, { development })))
  if (Result.isFailure(read)) {
    process.stderr.write(`${read.failure.message}\n`)
    process.exit(1)
  }
  const config = read.success
  const fiber = Effect.runFork(program(config, development))
  let stopping = false
  const stop = () => {
    if (stopping) return
    stopping = true
    setTimeout(() => process.exit(0), SHUTDOWN_LIMIT_MS).unref()
    Effect.runFork(Fiber.interrupt(fiber))
  }
  process.on("SIGTERM", stop)
  process.on("SIGINT", stop)
  // The parent process has ended.
  process.on("disconnect", stop)
  fiber.addObserver((exit) => {
    if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
      process.stderr.write(`${oneLine(exit.cause)}\n`)
      process.exit(1)
    }
    process.exit(0)
  })
}

start()
