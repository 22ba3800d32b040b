/** Finds the HAProxy of this machine, the proxy in front of several cells, or installs one if allowed. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { findProgram } from "./debian.ts"

/** The message if there is none. */
export const HAPROXY_MISSING = "No haproxy found: install HAProxy 2.6 or newer, or set HAPROXY_PATH to the program."

const START_LIMIT_MS = 20_000
/** The message of its master process when all addresses are bound and the worker process runs. */
const STARTED = "Loading success."

export const findHaproxy = (): string | undefined =>
  findProgram({
    setting: "HAPROXY_PATH",
    places: ["/usr/sbin/haproxy", "/usr/bin/haproxy", "/usr/local/sbin/haproxy", "/opt/homebrew/bin/haproxy"],
    package: "haproxy",
    purpose: "the proxy in front of several cells",
  })

/** Starts it with a configuration, and waits until it listens. Fails with its message about a wrong configuration, or an address in use. */
export const startHaproxy = async (program: string, config: string): Promise<ChildProcess> => {
  const checked = spawnSync(program, ["-c", "-f", config], { encoding: "utf8" })
  if (checked.status !== 0) throw new Error(checked.stderr)
  const child = spawn(program, ["-W", "-db", "-f", config], { stdio: ["ignore", "ignore", "pipe"] })
  return new Promise((resolve, reject) => {
    let output = ""
    const refused = () => reject(new Error(`HAProxy did not start: ${output}`))
    const limit = setTimeout(() => {
      child.kill("SIGTERM")
      refused()
    }, START_LIMIT_MS)
    child.once("close", () => {
      clearTimeout(limit)
      refused()
    })
    child.stderr.on("data", (part) => {
      output += part
      if (!output.includes(STARTED)) return
      clearTimeout(limit)
      resolve(child)
    })
  })
}
