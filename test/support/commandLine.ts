/** Runs the operator's command line for many commands in sequence. */
import { fork } from "node:child_process"
import { Redacted } from "effect"
import { afterAll } from "vitest"
import { compileCache, ENCRYPTION_KEY, fileOf } from "../../scripts/server.ts"
import type { TestDatabase } from "./database.ts"
import type { Finished } from "./server.ts"

/** Call at the top of a test file. One command at a time. */
export const useCommandLine = (database: TestDatabase, env: Readonly<Record<string, string>> = {}) => {
  let host: ReturnType<typeof fork> | undefined
  let last: Promise<unknown> = Promise.resolve()
  afterAll(() => void host?.disconnect())
  const start = () =>
    fork(fileOf("test/support/commandLineHost.ts"), [], {
      env: {
        PATH: process.env.PATH,
        ENCRYPTION_KEY,
        ...compileCache(),
        DATABASE_URL: Redacted.value(database.url()),
        ...env,
      },
      execArgv: ["--disable-warning=ExperimentalWarning"],
    })
  const run = (args: ReadonlyArray<string>) =>
    new Promise<Finished>((resolve, reject) => {
      host ??= start()
      const ended = () => reject(new Error(`It ended unexpectedly: ${args.join(" ")}`))
      host.once("exit", ended)
      host.once("message", (finished) => {
        host!.off("exit", ended)
        resolve(finished as Finished)
      })
      host.send(args)
    })
  return (...args: ReadonlyArray<string>): Promise<Finished> => {
    const finished = last.then(() => run(args))
    last = finished.catch(() => {})
    return finished
  }
}
