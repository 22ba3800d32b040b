/** A Chromium of this machine: the one that is installed, or, where we may, one that we install. */
import { spawnSync } from "node:child_process"
import { accessSync, constants, existsSync } from "node:fs"

const PLACES = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/usr/bin/google-chrome-stable",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
]
/** Of Debian and Ubuntu. */
const APT = "/usr/bin/apt-get"

/** What to do where there is none. */
export const CHROMIUM_MISSING =
  "No Chromium here: install chromium or Google Chrome, or set CHROMIUM_PATH to the program of one."

const runs = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const installed = (): string | undefined => PLACES.find(runs)

const apt = (...args: ReadonlyArray<string>): boolean =>
  spawnSync(APT, args, { stdio: ["ignore", 2, 2], env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } })
    .status === 0

/** The program's path. Installs Debian's package where there is none and we are root; undefined where that fails too. */
export const findChromium = (): string | undefined => {
  const named = process.env.CHROMIUM_PATH
  if (named !== undefined) return runs(named) ? named : undefined
  const found = installed()
  if (found !== undefined || process.getuid?.() !== 0 || !existsSync(APT)) return found
  process.stderr.write("Installing Debian's chromium, which the browser checks run in …\n")
  apt("-q", "update")
  return apt("-q", "install", "-y", "--no-install-recommends", "chromium") ? installed() : undefined
}
