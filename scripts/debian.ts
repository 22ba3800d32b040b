/** Finds programs that tests use, or installs Debian's packages if allowed. */
import { spawnSync } from "node:child_process"
import { accessSync, constants, existsSync } from "node:fs"

/** The installer of Debian and Ubuntu. */
const APT = "/usr/bin/apt-get"

const isUsable = (path: string, mode: number): boolean => {
  try {
    accessSync(path, mode)
    return true
  } catch {
    return false
  }
}

const apt = (...args: ReadonlyArray<string>): boolean =>
  spawnSync(APT, args, { stdio: ["ignore", 2, 2], env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } })
    .status === 0

/** Whether tests must run although their program is missing: in CI, where skipped tests are easily overlooked. */
export const isRequired = (process.env.CI ?? "") !== ""

/** A program, and the paths where it may be. */
export interface Program {
  /** The environment variable with its path. */
  readonly setting: string
  readonly places: ReadonlyArray<string>
  /** Debian's package. */
  readonly package: string
  /** Its purpose, for messages. */
  readonly purpose: string
  /** Whether it is a library, which must be readable, not executable. */
  readonly isLibrary?: boolean
}

/** Returns the program's path. Installs Debian's package if it is missing and we are root; undefined if that fails too. */
export const findProgram = ({ setting, places, package: name, purpose, isLibrary }: Program): string | undefined => {
  const usable = (path: string) => isUsable(path, isLibrary === true ? constants.R_OK : constants.X_OK)
  const named = process.env[setting]
  if (named !== undefined) return usable(named) ? named : undefined
  const installed = () => places.find(usable)
  const found = installed()
  if (found !== undefined || process.getuid?.() !== 0 || !existsSync(APT)) return found
  process.stderr.write(`Installing Debian's ${name}, ${purpose} …\n`)
  apt("-q", "update")
  return apt("-q", "install", "-y", "--no-install-recommends", name) ? installed() : undefined
}
