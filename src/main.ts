/** The server: the only place where all layers meet. */

import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { join } from "node:path"
import { NodeHttpServer } from "@effect/platform-node"
import { Cause, Effect, Exit, Fiber, Layer, Redacted, Result } from "effect"
import { HttpMiddleware } from "effect/http"
import { SqlClient } from "effect/sql"
import { createAccount, listAccounts } from "./account/accounts.ts"
import { ownerMailWorker } from "./account/ownerMail.ts"
import { endpoints, publicRoutes } from "./api.ts"
import { clockWorker } from "./clock/clockWorker.ts"
import { CLOCK_STEPS, expiryWorker } from "./clock/deletion.ts"
import { chargeTimers, recoverCharges } from "./collecting/collect.ts"
import { type Config, ConfigProblem } from "./config/Config.ts"
import { readConfig } from "./config/readConfig.ts"
import { databaseUrl, poolLayer } from "./db/database.ts"
import { migrate } from "./db/migrate.ts"
import { TenantDatabase } from "./db/TenantDatabase.ts"
import { Deletions } from "./deletion/Deletions.ts"
import { SANDBOX } from "./deletion/deletion.ts"
import { deletionWorker } from "./deletion/worker.ts"
import { respondToBroken } from "./http/broken.ts"
import { purge } from "./http/idempotency.ts"
import { Origin } from "./http/Origin.ts"
import { createApp } from "./http/server.ts"
import { drawLastMonth, invoiceTimers } from "./invoice/invoices.ts"
import { Links } from "./invoice/Links.ts"
import { Pdfs } from "./invoice/Pdfs.ts"
import { createKey } from "./key/apiKeys.ts"
import { hashKey } from "./key/key.ts"
import { messengerLayer } from "./messenger/layer.ts"
import { nudgeWorker, sendOnClock } from "./nudge/send.ts"
import { nudgeTimers } from "./nudge/timers.ts"
import { expanders } from "./objects.ts"
import { observabilityLayer, serveMetrics } from "./observability.ts"
import { every } from "./process/workers.ts"
import { timerWorker } from "./runtime/timerWorker.ts"
import { SANDBOX_STEPS } from "./sandbox/reset.ts"
import { servicesLayer } from "./services.ts"
import { reminderWorker } from "./subscription/reschedule.ts"
import { subscriptionTimers } from "./subscription/timers.ts"
import { MINUTE_MS } from "./time.ts"
import { deliveryWorker } from "./webhook/deliveryWorker.ts"
import { Sender } from "./webhook/Sender.ts"

/** A header or body that has not arrived after this is dropped (slow clients hold connections, not work). */
const HEADERS_LIMIT_MS = 10_000
const REQUEST_LIMIT_MS = 30_000
const CHECK_EVERY_MS = 1_000
/** Longer than proxies keep theirs, so that it is they who close. */
const KEEP_ALIVE_MS = 65_000
const SHUTDOWN_LIMIT_MS = 20_000

const SERVER_OPTIONS = {
  // A request without Host is answered by us, in the envelope, like any other.
  requireHostHeader: false,
  headersTimeout: HEADERS_LIMIT_MS,
  requestTimeout: REQUEST_LIMIT_MS,
  connectionsCheckingInterval: CHECK_EVERY_MS,
  keepAliveTimeout: KEEP_ALIVE_MS,
}

/** Listens, with TLS where that is set; the scope's end closes it. */
const listen = Effect.fnUntraced(function* (config: Config) {
  const { tls } = config.transport
  let origin = config.publicUrl ?? ""
  const make = (): Server => {
    const server =
      tls === undefined
        ? createServer(SERVER_OPTIONS)
        : createTlsServer({ ...SERVER_OPTIONS, cert: tls.cert, key: Redacted.value(tls.key) })
    respondToBroken(server, () => origin)
    return server
  }
  const http = yield* NodeHttpServer.make(make, {
    port: config.port,
    host: config.host,
    gracefulShutdownTimeout: SHUTDOWN_LIMIT_MS,
  })
  const port = "port" in http.address ? http.address.port : config.port
  const scheme = tls === undefined ? "http" : "https"
  origin ||= `${scheme}://${config.host.includes(":") ? `[${config.host}]` : config.host}:${port}`
  return { http, origin }
})

/** Charges first: what a rail knows by now comes before what is decided on it. */
const TIMERS_ON_CLOCKS = [chargeTimers, subscriptionTimers, nudgeTimers] as const

/** What dead processes, and dropped work of this one, left behind, and what is over. */
const recover = recoverCharges({}).pipe(Effect.andThen(purge))

/** Background work, for as long as the scope is open. */
const startWorkers = Effect.gen(function* () {
  yield* deletionWorker(({ id }) => (id === SANDBOX ? SANDBOX_STEPS : CLOCK_STEPS))
  yield* expiryWorker
  yield* reminderWorker
  yield* timerWorker([chargeTimers, subscriptionTimers, invoiceTimers, nudgeTimers])
  yield* every("invoices", MINUTE_MS, drawLastMonth)
  yield* deliveryWorker
  yield* nudgeWorker
  yield* ownerMailWorker
  yield* clockWorker({
    handlers: TIMERS_ON_CLOCKS,
    recover: (testClockId) => recoverCharges({ testClockId }),
    send: sendOnClock,
  })
})

/** Serves until the scope closes; returns the origin. */
const serve = Effect.fnUntraced(function* (config: Config, url: Redacted.Redacted<string>) {
  const { http, origin } = yield* listen(config)
  yield* every("recovery", MINUTE_MS, recover)
  const requests = yield* Layer.build(
    Layer.mergeAll(
      Deletions.layer,
      Links.layer,
      Pdfs.layer,
      TenantDatabase.layer(url),
      Sender.layer(config.webhooks),
      messengerLayer(config.messaging),
    ).pipe(Layer.provideMerge(Origin.layer(origin))),
  )
  if (config.workers > 0) yield* Effect.provideContext(startWorkers, requests)
  const { transport, rateLimits } = config
  const app = yield* createApp({ endpoints, publicRoutes, expanders, transport, rateLimits, inFlight: 50, origin })
  yield* http
    .serve(Effect.provideContext(app, requests))
    .pipe(Effect.provideService(HttpMiddleware.TracerDisabledWhen, () => true))
  return origin
})

const DEMO_NAME = "Demo merchant"

/** The demo account's sandbox key: made on the first run, kept for its owner's eyes beside the data. */
const demoKey = Effect.fnUntraced(function* (config: Config) {
  const sql = yield* SqlClient.SqlClient
  const file = join(config.dataDir, "demo-key")
  if (existsSync(file)) {
    const key = readFileSync(file, "utf8").trim()
    const known = yield* sql`SELECT 1 FROM api_key WHERE hash = ${hashKey(key)} AND revoked_at IS NULL`
    if (known.length > 0) return key
  }
  const accounts = yield* listAccounts
  const demo = accounts.find(({ business_name }) => business_name === DEMO_NAME)
  if (demo === undefined && accounts.length > 0) return undefined
  const key =
    demo === undefined
      ? (yield* createAccount({ businessName: DEMO_NAME })).keys.sk_test
      : (yield* createKey({ account_id: demo.id, livemode: false }, "secret")).key
  yield* Effect.sync(() => writeFileSync(file, `${key}\n`, { mode: 0o600 }))
  return key
})

const greeting = (origin: string, key: string | undefined): string =>
  [
    `Live:      ${origin}/v1`,
    `Sandbox:   ${origin}/sandbox/v1`,
    `Reference: ${origin}/docs`,
    ...(key === undefined
      ? []
      : [
          `Demo key:  ${key}`,
          "",
          "Try it:",
          `  curl ${origin}/sandbox/v1/customers -H 'Authorization: Bearer ${key}' \\`,
          '    -H \'Content-Type: application/json\' -d \'{"name": "Ada Obi", "email": "ada@example.com"}\'',
        ]),
    "",
  ].join("\n")

const program = (config: Config, development: boolean) =>
  Effect.gen(function* () {
    const url = yield* databaseUrl(config)
    yield* Effect.provide(migrate, poolLayer(url, 1))
    yield* Effect.gen(function* () {
      const origin = yield* serve(config, url)
      const { metricsPort, metricsHost } = config.observability
      if (metricsPort !== undefined) yield* serveMetrics(metricsPort, metricsHost)
      const key = development && !config.production ? yield* demoKey(config) : undefined
      yield* Effect.sync(() => process.stdout.write(greeting(origin, key)))
      return yield* Effect.never
      // The workers stop before what they work with.
    }).pipe(
      Effect.scoped,
      Effect.provide(
        servicesLayer(url, config.messaging.quietHours).pipe(
          Layer.provideMerge(observabilityLayer(config.observability)),
        ),
      ),
    )
  }).pipe(Effect.scoped)

/** What stopped the start, in one line. */
const oneLine = (cause: Cause.Cause<unknown>, config: Config): string => {
  const error = Cause.squash(cause) as {
    readonly _tag?: string
    readonly message?: string
    readonly cause?: { readonly code?: string; readonly message?: string }
  }
  if (error instanceof ConfigProblem) return error.message
  if (error._tag === "ServeError") {
    const code = error.cause?.code
    return code === "EADDRINUSE"
      ? `PORT ${config.port} on ${config.host} is in use: stop the other program or set PORT.`
      : `Cannot listen on HOST ${config.host}, PORT ${config.port}: ${code ?? error.cause?.message ?? "unknown reason"}.`
  }
  if (error._tag === "SqlError") {
    const reason = error.cause?.message ?? error.message ?? "unknown reason"
    const inner = (
      error.cause as { readonly cause?: { readonly message?: string; readonly code?: string } } | undefined
    )?.cause
    return `The database cannot be used (DATABASE_URL): ${inner?.message || inner?.code || reason}`.split("\n")[0]!
  }
  return `The start failed: ${error.message ?? String(error)}`.split("\n")[0]!
}

const start = (): void => {
  const development = process.argv.includes("--development")
  const read = Effect.runSync(Effect.result(readConfig(process.env, { development })))
  if (Result.isFailure(read)) {
    process.stderr.write(`${read.failure.message}\n`)
    process.exit(1)
  }
  const config = read.success
  const fiber = Effect.runFork(program(config, development))
  const stop = () => Effect.runFork(Fiber.interrupt(fiber))
  process.on("SIGTERM", stop)
  process.on("SIGINT", stop)
  // Started by a parent that is gone.
  process.on("disconnect", stop)
  fiber.addObserver((exit) => {
    if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
      process.stderr.write(`${oneLine(exit.cause, config)}\n`)
      process.exit(1)
    }
    process.exit(0)
  })
}

start()
