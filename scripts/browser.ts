/** A browser for checks of the hosted pages: headless, and quiet on the network. */
import { type Browser, chromium } from "playwright-core"
import { CHROMIUM_MISSING, findChromium } from "./chromium.ts"

const ARGS = [
  "--disable-quic",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
]

/** Undefined where there is none and none can be installed; then it has said so. */
export const launchBrowser = async (): Promise<Browser | undefined> => {
  const executablePath = findChromium()
  if (executablePath === undefined) {
    process.stderr.write(`${CHROMIUM_MISSING}\n`)
    return undefined
  }
  // Chromium's sandbox refuses to run as root.
  const args = process.getuid?.() === 0 ? [...ARGS, "--no-sandbox"] : ARGS
  return chromium.launch({ executablePath, headless: true, args })
}
