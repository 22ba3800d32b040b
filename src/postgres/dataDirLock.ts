/**
 * The lock of a DATA_DIR: a folder with the number of the process that holds it while it starts or stops the embedded server. One whose
 * holder is gone is removed by one process.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { ConfigProblem } from "../config/Config.ts"

/** Room for a first start on a slow disk: initdb takes about a second, a start after a crash replays the log. */
export const START_LIMIT_MS = 60_000
const LOCK_POLL_MS = 25
/** A lock has no name for a moment: while it is taken, and while it is let go of. */
const UNNAMED_LOCK_MS = 1_000
/** Of two that end at once the second waits until the first has looked who is left; a stop takes less. */
const EXIT_LIMIT_MS = 5_000

/** Whether a process runs. */
export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

/** Whether whoever held the lock is gone; one without a name may be about to get it, or just be let go of. */
const isStale = (lock: string): boolean => {
  try {
    const since = statSync(lock).mtimeMs
    const holder = existsSync(join(lock, "pid")) ? Number(readFileSync(join(lock, "pid"), "utf8")) : 0
    return holder === 0 ? Date.now() - since > UNNAMED_LOCK_MS : !isAlive(holder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false
    throw error
  }
}

/** Takes a lock that nobody has: a folder with the number of this process. */
const isTaken = (lock: string): boolean => {
  try {
    mkdirSync(lock)
    writeFileSync(join(lock, "pid"), String(process.pid))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false
    throw error
  }
}

/** Removes a lock whose holder is gone: one process at a time, so that none removes what another has just taken. */
const removeStale = (lock: string): void => {
  const removing = `${lock}.stale`
  if (!isTaken(removing)) {
    if (isStale(removing)) rmSync(removing, { recursive: true, force: true })
    return
  }
  try {
    if (isStale(lock)) rmSync(lock, { recursive: true, force: true })
  } finally {
    rmSync(removing, { recursive: true, force: true })
  }
}

const tryLock = (lock: string): boolean => {
  if (isTaken(lock)) return true
  if (isStale(lock)) removeStale(lock)
  return false
}

/** Takes a lock, waiting as long as a start may take. */
export const lockWithin = async (lock: string): Promise<void> => {
  const limit = Date.now() + START_LIMIT_MS
  while (!tryLock(lock)) {
    if (Date.now() > limit)
      throw new ConfigProblem({ message: `DATA_DIR is locked by another process: remove ${lock} if none is running.` })
    await sleep(LOCK_POLL_MS)
  }
}

/** The same for one that ends, which cannot await. */
export const lockAtExit = (lock: string): boolean => {
  const limit = Date.now() + EXIT_LIMIT_MS
  const still = new Int32Array(new SharedArrayBuffer(4))
  while (!tryLock(lock)) {
    if (Date.now() > limit) return false
    Atomics.wait(still, 0, 0, LOCK_POLL_MS)
  }
  return true
}

/** Lets go of a lock that this process holds. */
export const unlock = (lock: string): void => rmSync(lock, { recursive: true, force: true })
