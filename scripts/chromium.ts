/** Finds the Chromium of this machine, or installs one if allowed. */
import { findProgram } from "./debian.ts"

/** The message if there is none. */
export const CHROMIUM_MISSING =
  "No Chromium found: install chromium or Google Chrome, or set CHROMIUM_PATH to the program."

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
