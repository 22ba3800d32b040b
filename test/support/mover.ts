/** Moves an account as the command line does. Dies by SIGKILL at the given step, if any. */
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { KEYS } from "../../scripts/server.ts"
import { replayables } from "../../src/app/lifecycles.ts"
import { Cell } from "../../src/base/cell.ts"
import { moveAccount } from "../../src/cells/moveAccount.ts"
import { poolLayer } from "../../src/db/database.ts"
import { Vault } from "../../src/security/secret/Vault.ts"

const { SOURCE, TARGET, ACCOUNT, CELL, DIES_AT } = process.env as Readonly<Record<string, string>>

const client = (url: string) =>
  Effect.map(Layer.build(poolLayer(Redacted.make(url), 3, { statement_timeout: "0" })), (context) =>
    Context.get(context, SqlClient.SqlClient),
  )

const program = Effect.gen(function* () {
  const moved = yield* moveAccount({
    account: ACCOUNT!,
    source: yield* client(SOURCE!),
    target: yield* client(TARGET!),
    from: Redacted.make(SOURCE!),
    replayables,
    route: () => Effect.void,
    progress: (step) =>
      Effect.sync(() => {
        if (step === DIES_AT) process.kill(process.pid, "SIGKILL")
      }),
  })
  process.stdout.write(JSON.stringify(moved))
}).pipe(Effect.scoped, Effect.provide(Layer.merge(Vault.layer(KEYS), Layer.succeed(Cell, CELL!))))

await Effect.runPromise(program)
