// Runs a TypeScript entry point on any machine: installs the dependencies if they are missing or out of date, and picks a Node that is new
// enough (Effect 4 and type stripping need 22.19; the lockfile has one for machines with an older Node). Plain JavaScript, no dependencies: it
// must run on Node 20.11 with nothing installed.
import { spawn, spawnSync } from "node:child_process"
import { existsSync, lstatSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { arch, platform } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const MIN_TO_INSTALL = [20, 11]
const MIN_TO_RUN = [22, 19]

const stop = (line) => {
  process.stderr.write(`${line}\n`)
  process.exit(1)
}
const atLeast = ([major, minor]) => {
  const [ownMajor, ownMinor] = process.versions.node.split(".").map(Number)
  return ownMajor > major || (ownMajor === major && ownMinor >= minor)
}

if (!atLeast(MIN_TO_INSTALL))
  stop(`Node ${MIN_TO_INSTALL.join(".")} or newer is needed; this is ${process.versions.node}.`)

const [entry, ...args] = process.argv.slice(2)
const path = join(root, entry)

const modules = join(root, "node_modules")
const installed = join(modules, ".package-lock.json")
const lock = join(root, "package-lock.json")
/** Contains the number of the installing process, during an installation. */
const installing = join(root, ".installing")
const WAIT_MS = 200
const WAIT_LIMIT_MS = 15 * 60_000

if (!isInstalled()) {
  // npm would empty the folder that the link leads to.
  if (lstatSync(modules, { throwIfNoEntry: false })?.isSymbolicLink())
    stop(
      "node_modules is a link to a folder without the dependencies of package-lock.json: remove it and run this again.",
    )
  lockInstallation()
  // Another process may have installed them meanwhile.
  const done = isInstalled() || install()
  rmSync(installing, { force: true })
  if (!done) stop("The dependencies could not be installed: see npm's message above.")
}

/** Installs the dependencies; returns whether it succeeded. */
function install() {
  process.stderr.write("Installing dependencies …\n")
  const npm = process.env.npm_execpath
  const args = ["ci", "--include=dev", "--include=optional", "--loglevel=error"]
  // Standard output is for the command (`cli --json` prints one document), so npm writes to standard error.
  const result = npm
    ? spawnSync(process.execPath, [npm, ...args], { cwd: root, stdio: ["ignore", 2, 2] })
    : spawnSync("npm", args, { cwd: root, stdio: ["ignore", 2, 2] })
  return result.status === 0
}

/** Locks the installation: two processes at the same time would remove each other's files. The others wait. */
function lockInstallation() {
  if (tryLock()) return
  process.stderr.write("Another process is installing the dependencies …\n")
  const limit = Date.now() + WAIT_LIMIT_MS
  while (!tryLock()) {
    if (Date.now() > limit) stop(`It has not finished: remove ${installing} if there is no such process any more.`)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WAIT_MS)
  }
}

function tryLock() {
  try {
    writeFileSync(installing, String(process.pid), { flag: "wx" })
    return true
  } catch (error) {
    if (error.code !== "EEXIST") stop(`${root} cannot be written: ${error.message}`)
  }
  try {
    // While the number is being written the file is empty: 0 is this process's own group, which runs.
    process.kill(Number(readFileSync(installing, "utf8")), 0)
  } catch (error) {
    // The process was killed during the installation.
    if (error.code === "ESRCH") rmSync(installing, { force: true })
  }
  return false
}

function isInstalled() {
  return (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) || sameDependencies()
}

/**
 * A fresh checkout has newer file times than a correct installation: compare the versions. Optional packages are for some machines only, and
 * entry points in src/ need no development packages, which a production installation leaves out.
 */
function sameDependencies() {
  if (!existsSync(installed)) return false
  const isOfService = entry.startsWith("src/")
  const counts = ({ optional, dev, devOptional }) => !optional && !(isOfService && (dev || devOptional))
  const versions = (file) =>
    Object.entries(JSON.parse(readFileSync(file, "utf8")).packages)
      .filter(([path, one]) => path !== "" && counts(one))
      .map(([path, { version }]) => `${path}@${version}`)
      .sort()
      .join()
  return versions(installed) === versions(lock)
}

if (atLeast(MIN_TO_RUN)) {
  process.removeAllListeners("warning")
  process.argv.splice(1, 2, path)
  await import(pathToFileURL(path))
} else {
  const names = [`node-${platform()}-${arch()}`, `node-bin-${platform()}-${arch()}`]
  const newer = names.map((name) => join(root, "node_modules", name, "bin", "node")).find((file) => existsSync(file))
  if (newer === undefined) {
    stop(
      `Node ${MIN_TO_RUN.join(".")} or newer is needed on ${platform()}-${arch()}; this is ${process.versions.node}.`,
    )
  }
  // The channel closes when this process ends, in any way, and so the child notices it.
  const child = spawn(newer, ["--disable-warning=ExperimentalWarning", path, ...args], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
  })
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal))
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}
