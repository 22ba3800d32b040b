/** A server process of a test's own, as an operator would run it. */

import { type ChildProcess, spawn } from "node:child_process"
import { join } from "node:path"
import { Redacted } from "effect"

const MAIN = join(import.meta.dirname, "../../src/main.ts")
const START_LIMIT_MS = 30_000

export interface Server {
  readonly origin: string
  readonly process: ChildProcess
  /** Ends it as an operator does; answers its exit code. */
  readonly stop: () => Promise<number | null>
  /** Ends it as a power cut does. */
  readonly kill: () => Promise<void>
}

export interface Finished {
  readonly code: number | null
  readonly output: string
  readonly errors: string
}

const exited = (child: ChildProcess): Promise<number | null> =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve(child.exitCode)
    : new Promise((resolve) => child.once("exit", (code) => resolve(code)))

export const startServer = (
  databaseUrl: Redacted.Redacted<string>,
  env: Readonly<Record<string, string>> = {},
): Promise<Server> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", MAIN], {
      env: {
        PATH: process.env.PATH,
        PORT: "0",
        ALLOW_INSECURE_HTTP: "true",
        DATABASE_URL: Redacted.value(databaseUrl),
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    })
    let output = ""
    const limit = setTimeout(() => reject(new Error(`No start: ${output}`)), START_LIMIT_MS)
    child.stderr.on("data", (chunk) => {
      output += chunk
    })
    child.stdout.on("data", (chunk) => {
      output += chunk
      const origin = /Live: +(\S+)\/v1/.exec(output)?.[1]
      if (origin === undefined) return
      clearTimeout(limit)
      resolve({
        origin,
        process: child,
        stop: () => {
          child.kill("SIGTERM")
          return exited(child)
        },
        kill: async () => {
          child.kill("SIGKILL")
          await exited(child)
        },
      })
    })
    child.once("exit", () => {
      clearTimeout(limit)
      reject(new Error(`Exited at once: ${output}`))
    })
  })

/** Runs an entry point to its end. */
export const runToEnd = (
  entry: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
): Promise<Finished> =>
  new Promise((resolve) => {
    const child = spawn(
      process.execPath,
      ["--disable-warning=ExperimentalWarning", join(import.meta.dirname, "../..", entry), ...args],
      {
        env: { PATH: process.env.PATH, ...env },
        stdio: ["ignore", "pipe", "pipe"],
      },
    )
    let output = ""
    let errors = ""
    child.stdout.on("data", (chunk) => {
      output += chunk
    })
    child.stderr.on("data", (chunk) => {
      errors += chunk
    })
    child.once("close", (code) => resolve({ code, output, errors }))
  })
