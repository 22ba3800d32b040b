/**
 * The operator's command line (docs/operating.md). With --json standard output is one JSON document; errors go to
 * standard error with exit code 1, bad usage with 2. It works beside a running server.
 */

import { parseArgs } from "node:util"
import { Cause, Effect, Exit, Layer, type Redacted, Schema, Redacted as Secret } from "effect"
import type { SqlClient } from "effect/sql"
import {
  createAccount,
  findAccount,
  listAccounts,
  moveLiveAccess,
  type NewAccount,
  renderAccount,
  setPlan,
} from "./account/Accounts.ts"
import { type Config, ConfigProblem, readConfig } from "./config.ts"
import { databaseUrl, poolLayer } from "./db/Database.ts"
import { migrate, migrationStatus } from "./db/migrate.ts"
import { Origin } from "./http/Origin.ts"
import { email } from "./http/parameters.ts"
import { renderInvoice } from "./invoice/Invoice.ts"
import { drawInvoices, moveInvoice } from "./invoice/Invoices.ts"
import { Links } from "./invoice/Links.ts"
import type { InvoiceRow } from "./invoice/rows.ts"
import { createAdministrator, createKey, KeyUnusable, listKeys, renderKey, revokeKey, rollKey } from "./key/ApiKeys.ts"
import { levelsOf, SCOPE_NAMES, type Scopes } from "./key/scopes.ts"
import { toCsv, toHledger } from "./ledger/export.ts"
import { checkLedger, readLedger } from "./ledger/Ledger.ts"
import { replayJournal } from "./lifecycle/replay.ts"
import { replayables } from "./lifecycles.ts"
import { changeVertical, VERTICALS } from "./provider/Providers.ts"
import { Wakeups } from "./timers/Wakeups.ts"
import { monthOf } from "./usage/allowances.ts"

/** Who changes what by this command line, as histories name it. */
const OPERATOR = "command line"

class Usage extends Error {}
/** Something that the operator asked for is not there. */
class Missing extends Error {}

interface Options {
  readonly [name: string]: string | boolean | ReadonlyArray<string | boolean> | undefined
}

interface Result {
  readonly output: unknown
  /** False: the answer is that something is wrong (exit code 1). */
  readonly ok?: boolean
}

interface Command {
  readonly usage: string
  readonly run: (
    args: ReadonlyArray<string>,
    options: Options,
    url: Redacted.Redacted<string>,
    config: Config,
  ) => Effect.Effect<Result, unknown, SqlClient.SqlClient>
}

const OPTIONS = {
  json: { type: "boolean" },
  "business-name": { type: "string" },
  email: { type: "string" },
  vertical: { type: "string" },
  "api-plan": { type: "string" },
  "live-access": { type: "string" },
  account: { type: "string" },
  mode: { type: "string" },
  type: { type: "string" },
  scope: { type: "string", multiple: true },
  origin: { type: "string", multiple: true },
  grace: { type: "string" },
  name: { type: "string" },
  reason: { type: "string" },
  period: { type: "string" },
  format: { type: "string" },
} as const

const API_PLANS = ["starter", "growth", "scale", "enterprise"] as const

const among = <const L extends ReadonlyArray<string>>(what: string, value: unknown, allowed: L): L[number] => {
  if (typeof value !== "string" || !allowed.includes(value))
    throw new Usage(`${what} must be one of ${allowed.join(", ")}.`)
  return value
}

const oneOf = <const L extends ReadonlyArray<string>>(options: Options, name: string, allowed: L) =>
  options[name] === undefined ? undefined : among(`--${name}`, options[name], allowed)

const needed = (options: Options, name: string): string => {
  const value = options[name]
  if (typeof value !== "string" || value.trim() === "") throw new Usage(`--${name} is needed.`)
  return value
}

const argument = (args: ReadonlyArray<string>, index: number, what: string): string => {
  const value = args[index]
  if (value === undefined) throw new Usage(`The command needs ${what}.`)
  return value
}

const list = (options: Options, name: string): ReadonlyArray<string> => {
  const value = options[name]
  return Array.isArray(value) ? value : []
}

const emailOf = (options: Options): string => {
  const value = needed(options, "email")
  if (!Schema.is(email)(value)) throw new Usage("--email must be an e-mail address such as owner@shop.example.")
  return value
}

const newAccount = (options: Options): NewAccount => {
  const businessName = needed(options, "business-name")
  const vertical = oneOf(options, "vertical", VERTICALS)
  const apiPlan = oneOf(options, "api-plan", API_PLANS)
  const liveAccess = oneOf(options, "live-access", ["approved"])
  return {
    businessName,
    ...(options.email === undefined ? {} : { email: emailOf(options) }),
    ...(vertical === undefined ? {} : { vertical }),
    ...(apiPlan === undefined ? {} : { apiPlan }),
    ...(liveAccess === undefined ? {} : { liveAccess }),
  }
}

/** How many arguments a command takes: what its usage names between the command and its first option. */
const argumentsOf = (name: string, usage: string): number => {
  const [positional = ""] = usage.slice(name.length).split(/ \[?--/)
  return positional.endsWith("…]") ? Number.POSITIVE_INFINITY : positional.split(" ").filter(Boolean).length
}

/** `plans=write` and the like, as a restricted key's scopes. */
const scopesOf = (options: Options): Scopes =>
  Object.fromEntries(
    list(options, "scope").flatMap((text) => {
      const [name, level] = text.split("=")
      const scope = among("--scope", name, SCOPE_NAMES)
      return among(`--scope ${scope}=…`, level, levelsOf(scope)) === "none" ? [] : [[scope, level]]
    }),
  )

const originsOf = (options: Options): ReadonlyArray<string> =>
  list(options, "origin").map((text) => {
    const origin = URL.canParse(text) ? new URL(text).origin : "null"
    if (origin === "null" || origin !== text.replace(/\/$/, ""))
      throw new Usage(`--origin must be an origin such as https://shop.example, not ${text}.`)
    return origin
  })

const existing = (id: string) =>
  Effect.map(findAccount(id), (row) => {
    if (row === undefined) throw new Missing(`No such account: ${id}.`)
    return row
  })

/** Where the server of these settings answers. */
const originOf = (config: Config): string =>
  config.publicUrl ?? `${config.transport.tls === undefined ? "http" : "https"}://${config.host}:${config.port}`

/** What invoices need beside the database: links to show, and timers for the day they are due. */
const invoicing = (url: Redacted.Redacted<string>, config: Config) =>
  Layer.merge(Links.layer.pipe(Layer.provide(Origin.layer(originOf(config)))), Wakeups.layer(url))

const shown = (rows: ReadonlyArray<InvoiceRow>) =>
  Effect.map(Links, (links) => rows.map((row) => renderInvoice(row, links.pdf(row.id))))

/** The month that `--period` names, else the last complete one. Closing the running month early is for trying out. */
const invoicePeriod = (options: Options, production: boolean) => {
  const now = Date.now()
  if (options.period === undefined) return monthOf(now, -1)
  const name = needed(options, "period")
  const start = /^\d{4}-(0[1-9]|1[0-2])$/.test(name) ? Date.parse(`${name}-01T00:00:00Z`) : Number.NaN
  if (Number.isNaN(start)) throw new Usage("--period must be a month such as 2026-01.")
  if (start > now) throw new Usage(`--period ${name} has not begun yet.`)
  const period = monthOf(start)
  if (period.end > now && production)
    throw new Missing(`The month ${name} is running: production closes complete months only.`)
  return period
}

const LIVE_ACCESS_MOVES = ["request", "approve", "reject", "suspend", "reinstate"] as const

const COMMANDS: Readonly<Record<string, Command>> = {
  "account create": {
    usage: "account create --business-name X [--email E] [--vertical V] [--api-plan P] [--live-access approved]",
    run: (_, options) =>
      Effect.map(createAccount(newAccount(options)), ({ account, keys }) => ({
        output: { account: renderAccount(account, false), keys },
      })),
  },
  "account show": {
    usage: "account show ACCOUNT",
    run: (args) =>
      Effect.map(existing(argument(args, 0, "an account ID")), (row) => ({ output: renderAccount(row, false) })),
  },
  "account list": {
    usage: "account list",
    run: () => Effect.map(listAccounts, (rows) => ({ output: rows.map((row) => renderAccount(row, false)) })),
  },
  "account set-plan": {
    usage: "account set-plan ACCOUNT starter|growth|scale|enterprise",
    run: (args) =>
      Effect.gen(function* () {
        const id = argument(args, 0, "an account ID")
        const plan = among("The plan", args[1], API_PLANS)
        const account = yield* setPlan(id, plan)
        if (account === undefined) throw new Missing(`No such account: ${id}.`)
        return { output: renderAccount(account, false) }
      }),
  },
  "account live-access": {
    usage: `account live-access ACCOUNT ${LIVE_ACCESS_MOVES.join("|")}`,
    run: (args) =>
      Effect.gen(function* () {
        const id = argument(args, 0, "an account ID")
        const move = among("The move", args[1], LIVE_ACCESS_MOVES)
        const moved = yield* moveLiveAccess(id, move)
        if (moved === undefined) throw new Missing(`No such account: ${id}.`)
        if (moved.refused)
          throw new Missing(`Live access of ${id} is ${moved.account.live_access}: it cannot ${move} from there.`)
        return { output: renderAccount(moved.account, false) }
      }),
  },
  "key create": {
    usage:
      "key create --account A --mode test|live --type secret|publishable|restricted [--scope plans=write]… [--origin https://…]…",
    run: (_, options) =>
      Effect.gen(function* () {
        const account = yield* existing(needed(options, "account"))
        const mode = among("--mode", options.mode, ["test", "live"])
        const type = among("--type", options.type, ["secret", "publishable", "restricted"])
        if (type !== "restricted" && list(options, "scope").length > 0)
          throw new Usage("--scope is for restricted keys: a secret key may do everything.")
        if (type !== "publishable" && list(options, "origin").length > 0)
          throw new Usage("--origin is for publishable keys: no other key may reach a browser.")
        if (mode === "live" && account.live_access !== "approved")
          throw new Missing(`Live access of ${account.id} is ${account.live_access}: live keys need it approved.`)
        const may = { scopes: scopesOf(options), origins: originsOf(options) }
        return { output: yield* createKey({ account_id: account.id, livemode: mode === "live" }, type, may) }
      }),
  },
  "key list": {
    usage: "key list --account A",
    run: (_, options) =>
      Effect.gen(function* () {
        const { id } = yield* existing(needed(options, "account"))
        return { output: (yield* listKeys(id)).map(renderKey) }
      }),
  },
  "key roll": {
    usage: "key roll ID --grace 0|1h|24h|7d",
    run: (args, options) =>
      Effect.gen(function* () {
        const id = argument(args, 0, "a key ID")
        const rolled = yield* rollKey(id, among("--grace", options.grace, ["0", "1h", "24h", "7d"]))
        if (rolled === undefined) throw new Missing(`No such key: ${id}.`)
        return { output: rolled }
      }),
  },
  "key revoke": {
    usage: "key revoke ID",
    run: (args) =>
      Effect.gen(function* () {
        const id = argument(args, 0, "a key ID")
        const revoked = yield* revokeKey(id)
        if (revoked === undefined) throw new Missing(`No such key: ${id}.`)
        return { output: revoked }
      }),
  },
  "admin create": {
    usage: "admin create --name N",
    run: (_, options) => Effect.map(createAdministrator(needed(options, "name")), (output) => ({ output })),
  },
  "invoice run": {
    usage: "invoice run [--period YYYY-MM] [--account A]",
    run: (_, options, url, config) =>
      Effect.gen(function* () {
        const period = invoicePeriod(options, config.production)
        const account = options.account === undefined ? undefined : (yield* existing(needed(options, "account"))).id
        return { output: yield* shown(yield* drawInvoices(period, account)) }
      }).pipe(Effect.provide(invoicing(url, config))),
  },
  ...Object.fromEntries(
    (["pay", "void"] as const).map((move): [string, Command] => [
      `invoice ${move}`,
      {
        usage: `invoice ${move} INVOICE`,
        run: (args, _, url, config) =>
          Effect.gen(function* () {
            const id = argument(args, 0, "an invoice ID")
            const moved = yield* moveInvoice(id, move)
            if (moved === undefined) throw new Missing(`No such invoice: ${id}.`)
            if (moved.refused)
              throw new Missing(
                `The invoice ${id} is ${moved.invoice.state}: it cannot be ${move === "pay" ? "paid" : "voided"}.`,
              )
            return { output: (yield* shown([moved.invoice]))[0] }
          }).pipe(Effect.provide(invoicing(url, config))),
      },
    ]),
  ),
  "vertical set": {
    usage: "vertical set ACCOUNT V --reason R",
    run: (args, options) =>
      Effect.gen(function* () {
        const { id } = yield* existing(argument(args, 0, "an account ID"))
        const vertical = among("The business type", args[1], VERTICALS)
        const reason = needed(options, "reason")
        if (reason.length < 5 || reason.length > 500) throw new Usage("--reason must have 5 to 500 characters.")
        const change = { vertical, reason, administrator: OPERATOR }
        return { output: yield* changeVertical({ account_id: id, livemode: false }, change) }
      }),
  },
  "ledger check": {
    usage: "ledger check",
    run: () => Effect.map(checkLedger, (result) => ({ output: result, ok: result.ok })),
  },
  "ledger export": {
    usage: "ledger export [--account A] --format hledger|csv",
    run: (_, options) =>
      Effect.gen(function* () {
        const format = among("--format", options.format, ["hledger", "csv"])
        const account = options.account === undefined ? undefined : (yield* existing(needed(options, "account"))).id
        yield* readLedger(account, (lines, first) => {
          const between = format === "hledger" && !first && lines.length > 0 ? "\n" : ""
          process.stdout.write(between + (format === "hledger" ? toHledger(lines) : toCsv(lines, first)))
        })
        return { output: undefined }
      }),
  },
  "account rail": {
    usage: "account rail ACCOUNT simulator",
    run: (args, _, __, config) =>
      Effect.gen(function* () {
        const account = yield* existing(argument(args, 0, "an account ID"))
        among("The rail", args[1], ["simulator", "paystack", "flutterwave"])
        if (args[1] !== "simulator") throw new Missing(`The rail ${args[1]} is not part of this version yet.`)
        if (config.production) throw new Missing("The simulator charges nobody: production refuses it in live.")
        return { output: renderAccount(account, false) }
      }),
  },
  "journal replay": {
    usage: "journal replay [ACTOR…]",
    run: (actors) =>
      Effect.map(replayJournal(replayables, actors), (result) => {
        const [unknown] = result.unknown
        if (unknown !== undefined) throw new Missing(`No such actor in the journal: ${unknown}.`)
        return { output: { replayed: result.replayed, differing: result.differing }, ok: result.differing.length === 0 }
      }),
  },
  "db url": { usage: "db url", run: (_, __, url) => Effect.succeed({ output: { url: Secret.value(url) } }) },
  "db migrate": { usage: "db migrate", run: () => Effect.map(migrate, (applied) => ({ output: { applied } })) },
  "db status": { usage: "db status", run: () => Effect.map(migrationStatus, (status) => ({ output: status })) },
}

const help = (): string =>
  `Usage: npm run --silent cli -- <command> [--json]\n${Object.values(COMMANDS)
    .map(({ usage }) => `  ${usage}`)
    .join("\n")}\n`

/** An answer for people: one `name: value` line each, values that have parts as JSON. */
const readable = (value: unknown): string => {
  if (Array.isArray(value)) return value.map(readable).join("\n\n")
  if (typeof value !== "object" || value === null) return String(value)
  return Object.entries(value)
    .map(
      ([name, inner]) =>
        `${name}: ${typeof inner === "object" && inner !== null ? JSON.stringify(inner) : String(inner)}`,
    )
    .join("\n")
}

const fail = (message: string, code: number): never => {
  process.stderr.write(`${message}\n`)
  process.exit(code)
}

const parse = (): { readonly values: Options; readonly positionals: ReadonlyArray<string> } => {
  try {
    return parseArgs({ args: process.argv.slice(2), options: OPTIONS, allowPositionals: true })
  } catch (error) {
    return fail(`${(error as Error).message}\n${help()}`, 2)
  }
}

const main = (): void => {
  const { values, positionals } = parse()
  const [name, args] = [positionals.slice(0, 2).join(" "), positionals.slice(2)]
  const command = COMMANDS[name] ?? fail(help(), 2)
  if (args.length > argumentsOf(name, command.usage))
    fail(`The command takes no argument ${args.at(-1)}. Usage: ${command.usage}`, 2)
  for (const option of Object.keys(values))
    if (option !== "json" && !command.usage.includes(`--${option} `))
      fail(`The command takes no --${option}. Usage: ${command.usage}`, 2)

  const program = Effect.gen(function* () {
    const config = yield* Effect.try({
      try: () => readConfig(process.env, { development: false }),
      catch: (error) => error,
    })
    const url = yield* databaseUrl(config)
    return yield* Effect.gen(function* () {
      if (!command.usage.startsWith("db")) yield* migrate
      return yield* command.run(args, values, url, config)
    }).pipe(Effect.provide(poolLayer(url, 2)))
  }).pipe(Effect.scoped)

  Effect.runCallback(program, {
    onExit: (exit) => {
      if (Exit.isSuccess(exit)) {
        const { output, ok } = exit.value
        // What writes by itself has no document to show.
        const text = output === undefined ? "" : `${values.json === true ? JSON.stringify(output) : readable(output)}\n`
        process.stdout.write(text, () => process.exit(ok === false ? 1 : 0))
        return
      }
      const error = Cause.squash(exit.cause)
      if (error instanceof Usage) fail(error.message, 2)
      if (error instanceof Missing || error instanceof ConfigProblem || error instanceof KeyUnusable)
        fail((error as Error).message, 1)
      fail(`The command failed: ${error instanceof Error ? error.message : String(error)}`, 1)
    },
  })
}

main()
