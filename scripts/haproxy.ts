/** An HAProxy of this machine, which stands before several cells: the one that is installed, or, where we may, one that we install. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { findProgram } from "./debian.ts"

/** What to do where there is none. */
export const HAPROXY_MISSING = "No haproxy here: install HAProxy 2.6 or newer, or set HAPROXY_PATH to the program."

const START_LIMIT_MS = 20_000
/** What its master process says once every address is its own, and the process that serves runs. */
const STARTED = "Loading success."

export const findHaproxy = (): string | undefined =>
  findProgram({
    setting: "HAPROXY_PATH",
    places: ["/usr/sbin/haproxy", "/usr/bin/haproxy", "/usr/local/sbin/haproxy", "/opt/homebrew/bin/haproxy"],
    package: "haproxy",
    purpose: "which stands before several cells",
  })

/** Starts it with a configuration, and waits until it listens. Fails with what it says of a wrong one, or of an address in use. */
export const startHaproxy = async (program: string, config: string): Promise<ChildProcess> => {
  const checked = spawnSync(program, ["-c", "-f", config], { encoding: "utf8" })
  if (checked.status !== 0) throw new Error(checked.stderr)
  const child = spawn(program, ["-W", "-db", "-f", config], { stdio: ["ignore", "ignore", "pipe"] })
  return new Promise((resolve, reject) => {
    let said = ""
    const refused = () => reject(new Error(`HAProxy did not start: ${said}`))
    const limit = setTimeout(() => {
      child.kill("SIGTERM")
      refused()
    }, START_LIMIT_MS)
    child.once("close", () => {
      clearTimeout(limit)
      refused()
    })
    child.stderr.on("data", (part) => {
      said += part
      if (!said.includes(STARTED)) return
      clearTimeout(limit)
      resolve(child)
    })
  })
}
