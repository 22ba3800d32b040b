/**
 * The operator's command line (docs/operating.md). With --json standard output is one JSON document; errors go to
 * standard error with exit code 1, bad usage with 2. It works beside a running server.
 */

import { parseArgs } from "node:util"
import { Cause, Effect, Exit, type Redacted, Redacted as Secret } from "effect"
import type { SqlClient } from "effect/sql"
import { createAccount, findAccount, listAccounts, type NewAccount, renderAccount } from "./account/Accounts.ts"
import { ConfigProblem, readConfig } from "./config.ts"
import { databaseUrl, poolLayer } from "./db/Database.ts"
import { migrate, migrationStatus } from "./db/migrate.ts"
import { checkLedger } from "./ledger/Ledger.ts"
import { replayJournal } from "./lifecycle/replay.ts"
import { replayables } from "./lifecycles.ts"

class Usage extends Error {}
/** Something that the operator asked for is not there. */
class Missing extends Error {}

interface Options {
  readonly [name: string]: string | boolean | undefined
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
  ) => Effect.Effect<Result, unknown, SqlClient.SqlClient>
}

const OPTIONS = {
  json: { type: "boolean" },
  "business-name": { type: "string" },
  email: { type: "string" },
  vertical: { type: "string" },
  "api-plan": { type: "string" },
  "live-access": { type: "string" },
} as const

const VERTICALS = [
  "generic",
  "estate_management",
  "meal_plan",
  "gym_fitness",
  "insurance",
  "waste",
  "fuel",
  "laundry",
  "ecommerce",
]
const API_PLANS = ["starter", "growth", "scale", "enterprise"]

const oneOf = (options: Options, name: string, allowed: ReadonlyArray<string>): string | undefined => {
  const value = options[name]
  if (value === undefined) return undefined
  if (typeof value !== "string" || !allowed.includes(value))
    throw new Usage(`--${name} must be one of ${allowed.join(", ")}.`)
  return value
}

const newAccount = (options: Options): NewAccount => {
  const businessName = options["business-name"]
  if (typeof businessName !== "string" || businessName === "") throw new Usage("account create needs --business-name.")
  const vertical = oneOf(options, "vertical", VERTICALS)
  const apiPlan = oneOf(options, "api-plan", API_PLANS)
  const liveAccess = oneOf(options, "live-access", ["approved"])
  return {
    businessName,
    ...(typeof options.email === "string" ? { email: options.email } : {}),
    ...(vertical === undefined ? {} : { vertical }),
    ...(apiPlan === undefined ? {} : { apiPlan }),
    ...(liveAccess === undefined ? {} : { liveAccess: "approved" as const }),
  }
}

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
    run: ([id]) =>
      Effect.gen(function* () {
        if (id === undefined) throw new Usage("account show needs an account ID.")
        const row = yield* findAccount(id)
        if (row === undefined) throw new Missing(`No such account: ${id}.`)
        return { output: renderAccount(row, false) }
      }),
  },
  "account list": {
    usage: "account list",
    run: () => Effect.map(listAccounts, (rows) => ({ output: rows.map((row) => renderAccount(row, false)) })),
  },
  "ledger check": {
    usage: "ledger check",
    run: () => Effect.map(checkLedger, (result) => ({ output: result, ok: result.ok })),
  },
  "journal replay": {
    usage: "journal replay [ACTOR…]",
    run: (actors) =>
      Effect.map(replayJournal(replayables, actors), (result) => ({
        output: result,
        ok: result.differing.length === 0,
      })),
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
  const command = COMMANDS[positionals.slice(0, 2).join(" ")] ?? fail(help(), 2)

  const program = Effect.gen(function* () {
    const config = yield* Effect.try({
      try: () => readConfig(process.env, { development: false }),
      catch: (error) => error,
    })
    const url = yield* databaseUrl(config)
    return yield* Effect.gen(function* () {
      if (!command.usage.startsWith("db")) yield* migrate
      return yield* command.run(positionals.slice(2), values, url)
    }).pipe(Effect.provide(poolLayer(url, 2)))
  }).pipe(Effect.scoped)

  Effect.runCallback(program, {
    onExit: (exit) => {
      if (Exit.isSuccess(exit)) {
        const { output, ok } = exit.value
        process.stdout.write(`${values.json === true ? JSON.stringify(output) : readable(output)}\n`, () =>
          process.exit(ok === false ? 1 : 0),
        )
        return
      }
      const error = Cause.squash(exit.cause)
      if (error instanceof Usage) fail(error.message, 2)
      if (error instanceof Missing || error instanceof ConfigProblem) fail((error as Error).message, 1)
      fail(`The command failed: ${error instanceof Error ? error.message : String(error)}`, 1)
    },
  })
}

main()
