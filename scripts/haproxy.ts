/** An HAProxy of this machine, which stands before several cells: the one that is installed, or, where we may, one that we install. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { connect } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { findProgram } from "./debian.ts"

/** What to do where there is none. */
export const HAPROXY_MISSING = "No haproxy here: install HAProxy 2.6 or newer, or set HAPROXY_PATH to the program."

const START_LIMIT_MS = 20_000
const LOOK_EVERY_MS = 50

export const findHaproxy = (): string | undefined =>
  findProgram({
    setting: "HAPROXY_PATH",
    places: ["/usr/sbin/haproxy", "/usr/bin/haproxy", "/usr/local/sbin/haproxy", "/opt/homebrew/bin/haproxy"],
    package: "haproxy",
    purpose: "which stands before several cells",
  })

const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1")
    const end = (found: boolean) => () => {
      socket.destroy()
      resolve(found)
    }
    socket.once("connect", end(true))
    socket.once("error", end(false))
  })

/** Starts it with a configuration, and waits until it listens on `port`. Fails with what it says of a wrong one. */
export const startHaproxy = async (program: string, config: string, port: number): Promise<ChildProcess> => {
  const checked = spawnSync(program, ["-c", "-f", config], { encoding: "utf8" })
  if (checked.status !== 0) throw new Error(checked.stderr)
  const child = spawn(program, ["-db", "-f", config], { stdio: ["ignore", "ignore", "pipe"] })
  let said = ""
  child.stderr.on("data", (part) => {
    said += part
  })
  const limit = Date.now() + START_LIMIT_MS
  while (!(await isListening(port))) {
    if (child.exitCode !== null || Date.now() > limit) throw new Error(`HAProxy did not start: ${said}`)
    await sleep(LOOK_EVERY_MS)
  }
  return child
}
