/** All commands, as one program: it ends as the command that the process's arguments name ends. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, Layer, Logger } from "effect"
import { CliConfig, Command, GlobalFlag } from "effect/cli"
import { account } from "./account.ts"
import { admin } from "./admin.ts"
import { cell } from "./cell.ts"
import { db } from "./db.ts"
import { report } from "./failures.ts"
import { invoice } from "./invoice.ts"
import { journal } from "./journal.ts"
import { key } from "./key.ts"
import { ledger } from "./ledger.ts"
import { Json } from "./output.ts"
import { rail } from "./rail.ts"
import { secrets } from "./secrets.ts"
import { run } from "./usage.ts"
import { vertical } from "./vertical.ts"

const commands = Command.make("cli").pipe(
  Command.withSubcommands([account, key, admin, secrets, rail, invoice, vertical, ledger, journal, cell, db]),
  Command.withGlobalFlags([Json]),
)

const surroundings = Layer.mergeAll(
  NodeServices.layer,
  CliConfig.layer({ builtIns: [GlobalFlag.Help] }),
  // Standard output belongs to the documents.
  Logger.layer([Logger.withConsoleError(Logger.formatLogFmt)]),
)

export const commandLine = run(commands).pipe(Effect.tapCause(report), Effect.provide(surroundings))
