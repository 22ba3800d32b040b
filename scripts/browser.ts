/** A browser for checks of the hosted pages: headless, with little network traffic of its own. */
import { type Browser, type BrowserServer, chromium } from "playwright-core"
import { CHROMIUM_MISSING, findChromium } from "./chromium.ts"

const ARGS = [
  "--disable-quic",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
]

const optionsOf = (executablePath: string) => ({
  executablePath,
  headless: true,
  // Chromium's sandbox refuses to run as root.
  args: process.getuid?.() === 0 ? [...ARGS, "--no-sandbox"] : ARGS,
})

/** Launches a browser; returns undefined, after an error message, if none is installed and none can be. */
export const launchBrowser = async (): Promise<Browser | undefined> => {
  const path = findChromium()
  if (path !== undefined) return chromium.launch(optionsOf(path))
  process.stderr.write(`${CHROMIUM_MISSING}\n`)
  return undefined
}

/** Starts a browser that several processes connect to. Fails if none is installed and none can be. */
export const serveBrowser = (): Promise<BrowserServer> => {
  const path = findChromium()
  return path === undefined
    ? Promise.reject(new Error(CHROMIUM_MISSING))
    : chromium.launchServer({ ...optionsOf(path), host: "127.0.0.1" })
}
