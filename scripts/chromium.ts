/** A Chromium of this machine: the one that is installed, or, where we may, one that we install. */
import { findProgram } from "./debian.ts"

/** What to do where there is none. */
export const CHROMIUM_MISSING =
  "No Chromium here: install chromium or Google Chrome, or set CHROMIUM_PATH to the program of one."

export const findChromium = (): string | undefined =>
  findProgram({
    setting: "CHROMIUM_PATH",
    places: [
      "/usr/bin/chromium",
      "/usr/bin/chromium-browser",
      "/usr/bin/google-chrome",
      "/usr/bin/google-chrome-stable",
      "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
      "/Applications/Chromium.app/Contents/MacOS/Chromium",
    ],
    package: "chromium",
    purpose: "which the browser checks run in",
  })
