/** Starts a separate server process for the demo, the benchmarks and the tests. */
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { Redacted } from "effect"
import type { EncryptionKey } from "../src/config/Config.ts"

export const ROOT = join(import.meta.dirname, "..")
/** A start takes a second, but much longer on a busy machine. */
const START_LIMIT_MS = 180_000

/** Tests and benchmarks send more requests than a merchant does. */
const UNLIMITED = {
  RATE_LIMIT_LIVE: "100000",
  RATE_LIMIT_SANDBOX: "100000",
  RATE_LIMIT_PUBLIC: "100000",
  RATE_LIMIT_INSTALMENT_PLANS: "100000",
  IN_FLIGHT: "100000",
}

/** Any key is good enough: the encrypted data is deleted afterwards. */
const KEY = Buffer.alloc(32, "of databases for an hour")
export const KEYS: ReadonlyArray<EncryptionKey> = [Redacted.make(KEY)]
export const ENCRYPTION_KEY = KEY.toString("base64")

/** The folder of Node's compile cache, if the parent has one. */
export const compileCache = (): Readonly<Record<string, string>> =>
  process.env.NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }

/** The name of an entry point in a bundle: `src/main.ts` is `src/main`. */
export const entryName = (entry: string): string => entry.replace(/\.ts$/, "")

/** The file of an entry point: in the parent's bundle if that contains it (scripts/bundle.ts), otherwise the source. */
export const fileOf = (entry: string): string => {
  const bundled = join(process.env.SERVICE_BUNDLE ?? "", `${entryName(entry)}.mjs`)
  return process.env.SERVICE_BUNDLE !== undefined && existsSync(bundled) ? bundled : join(ROOT, entry)
}

export interface Server {
  /** Its own address, without a proxy. */
  readonly origin: string
  readonly process: ChildProcess
  /** Its output so far. */
  readonly output: () => string
  /** Stops it as an operator does; returns its exit code. */
  readonly stop: () => Promise<number | null>
  /** Kills it, like a power cut. */
  readonly kill: () => Promise<void>
}

const exited = (child: ChildProcess): Promise<number | null> =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve(child.exitCode)
    : new Promise((resolve) => child.once("exit", (code) => resolve(code)))

/** Starts the entry point with only `env` and `args`, and waits until it prints its address. */
export const startServer = (
  env: Readonly<Record<string, string>>,
  entry = "src/main.ts",
  args: ReadonlyArray<string> = [],
): Promise<Server> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", fileOf(entry), ...args], {
      env: {
        PATH: process.env.PATH,
        PORT: "0",
        ALLOW_INSECURE_HTTP: "true",
        ...(env.ENCRYPTION_KEY_FILE === undefined ? { ENCRYPTION_KEY } : {}),
        ...compileCache(),
        ...UNLIMITED,
        ...env,
      },
      // The channel closes when the parent ends, in any way, and so the server notices it.
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    })
    child.channel?.unref()
    let output = ""
    const limit = setTimeout(() => reject(new Error(`No start: ${output}`)), START_LIMIT_MS)
    child.stderr!.setEncoding("utf8").on("data", (chunk) => {
      output += chunk
    })
    child.stdout!.setEncoding("utf8").on("data", (chunk) => {
      output += chunk
      const origin = /(?:Listens: +(\S+)|Live: +(\S+)\/v1)/.exec(output)?.slice(1).find(Boolean)
      if (origin === undefined) return
      clearTimeout(limit)
      const stop = () => {
        child.kill("SIGTERM")
        return exited(child)
      }
      const kill = async () => {
        child.kill("SIGKILL")
        await exited(child)
      }
      resolve({ origin, process: child, output: () => output, stop, kill })
    })
    child.once("exit", () => {
      clearTimeout(limit)
      reject(new Error(`Exited immediately: ${output}`))
    })
  })
