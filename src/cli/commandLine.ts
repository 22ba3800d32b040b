/** All commands, as one program that ends with the result of the command in the process's arguments. */
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
import { member } from "./member.ts"
import { Json } from "./output.ts"
import { rail } from "./rail.ts"
import { secrets } from "./secrets.ts"
import { run } from "./usage.ts"
import { vertical } from "./vertical.ts"

const commands = Command.make("cli").pipe(
  Command.withSubcommands([account, member, key, admin, secrets, rail, invoice, vertical, ledger, journal, cell, db]),
  Command.withGlobalFlags([Json]),
)

const surroundings = Layer.mergeAll(
  NodeServices.layer,
  CliConfig.layer({ builtIns: [GlobalFlag.Help] }),
  // Standard output is for documents only.
  Logger.layer([Logger.withConsoleError(Logger.formatLogFmt)]),
)

export const commandLine = run(commands).pipe(Effect.tapCause(report), Effect.provide(surroundings))
