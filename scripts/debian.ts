/** Programs that tests run in or are checked by: the ones of this machine, or Debian's packages where we may install them. */
import { spawnSync } from "node:child_process"
import { accessSync, constants, existsSync } from "node:fs"

/** Of Debian and Ubuntu. */
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

/** Whether what needs a program must run though there is none: where nobody looks at what was left out. */
export const isRequired = (process.env.CI ?? "") !== ""

/** A program, and where it may be. */
export interface Program {
  /** The setting that names it. */
  readonly setting: string
  readonly places: ReadonlyArray<string>
  /** Debian's package. */
  readonly package: string
  /** What it is for. */
  readonly purpose: string
  /** A library, which other programs load: it is read, not run. */
  readonly isLibrary?: boolean
}

/** The program's path. Installs Debian's package where there is none and we are root; undefined where that fails too. */
export const findProgram = ({ setting, places, package: name, purpose, isLibrary }: Program): string | undefined => {
  const runs = (path: string) => isUsable(path, isLibrary === true ? constants.R_OK : constants.X_OK)
  const named = process.env[setting]
  if (named !== undefined) return runs(named) ? named : undefined
  const installed = () => places.find(runs)
  const found = installed()
  if (found !== undefined || process.getuid?.() !== 0 || !existsSync(APT)) return found
  process.stderr.write(`Installing Debian's ${name}, ${purpose} …\n`)
  apt("-q", "update")
  return apt("-q", "install", "-y", "--no-install-recommends", name) ? installed() : undefined
}
