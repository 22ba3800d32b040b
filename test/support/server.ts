/** Starts processes of a test, as an operator would. */
import { spawn } from "node:child_process"
import { Redacted } from "effect"
import { compileCache, ENCRYPTION_KEY, fileOf, startServer as start } from "../../scripts/server.ts"

export type { Server } from "../../scripts/server.ts"

export interface Finished {
  readonly code: number | null
  readonly output: string
  readonly errors: string
}

export const startServer = (databaseUrl: Redacted.Redacted<string>, env: Readonly<Record<string, string>> = {}) =>
  start({ DATABASE_URL: Redacted.value(databaseUrl), ...env })

/** Runs an entry point to its end. Its standard input is `input`. */
export const runToEnd = (
  entry: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
  input = "",
): Promise<Finished> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", fileOf(entry), ...args], {
      env: { PATH: process.env.PATH, ENCRYPTION_KEY, ...compileCache(), ...env },
      stdio: ["pipe", "pipe", "pipe"],
    })
    // It may end without reading it.
    child.stdin.on("error", () => {})
    child.stdin.end(input)
    let output = ""
    let errors = ""
    child.stdout.setEncoding("utf8").on("data", (chunk) => {
      output += chunk
    })
    child.stderr.setEncoding("utf8").on("data", (chunk) => {
      errors += chunk
    })
    child.once("close", (code) => resolve({ code, output, errors }))
  })
