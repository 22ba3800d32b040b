/**
 * The lock of a DATA_DIR: a folder with the number of the process that owns it while it starts or stops the embedded server. If the owner
 * is dead, one process removes the lock.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { ConfigProblem } from "../config/Config.ts"

/** Room for a first start on a slow disk: initdb takes about a second, a start after a crash replays the log. */
export const START_LIMIT_MS = 60_000
const LOCK_POLL_MS = 25
/** A lock has no owner for a moment while it is taken and while it is released. */
const NO_OWNER_MS = 1_000
/** If two processes end together, the second waits until the first has checked who is left; a stop takes less. */
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

/** Whether the owner of a lock is dead. A lock without an owner may be about to get one, or may just be released. */
const isStale = (lock: string): boolean => {
  try {
    const since = statSync(lock).mtimeMs
    const owner = existsSync(join(lock, "pid")) ? Number(readFileSync(join(lock, "pid"), "utf8")) : 0
    return owner === 0 ? Date.now() - since > NO_OWNER_MS : !isAlive(owner)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false
    throw error
  }
}

/** Takes a free lock: creates a folder with the number of this process. Returns whether it did. */
const takeFree = (lock: string): boolean => {
  try {
    mkdirSync(lock)
    writeFileSync(join(lock, "pid"), String(process.pid))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false
    throw error
  }
}

/** Removes a lock whose owner is dead. One process at a time does this, so that none removes a lock that another has just taken. */
const removeStale = (lock: string): void => {
  const removing = `${lock}.stale`
  if (!takeFree(removing)) {
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
  if (takeFree(lock)) return true
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

/** Takes a lock in a process that is ending and cannot await; returns false after a time limit. */
export const lockAtExit = (lock: string): boolean => {
  const limit = Date.now() + EXIT_LIMIT_MS
  const sleeper = new Int32Array(new SharedArrayBuffer(4))
  while (!tryLock(lock)) {
    if (Date.now() > limit) return false
    Atomics.wait(sleeper, 0, 0, LOCK_POLL_MS)
  }
  return true
}

/** Releases a lock of this process. */
export const unlock = (lock: string): void => rmSync(lock, { recursive: true, force: true })
