/** A browser for checks of the hosted pages: headless, and quiet on the network. */
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

/** Undefined where there is none and none can be installed; then it has said so. */
export const launchBrowser = async (): Promise<Browser | undefined> => {
  const path = findChromium()
  if (path !== undefined) return chromium.launch(optionsOf(path))
  process.stderr.write(`${CHROMIUM_MISSING}\n`)
  return undefined
}

/** One for several processes, which connect to it. Fails where there is none and none can be installed. */
export const serveBrowser = (): Promise<BrowserServer> => {
  const path = findChromium()
  return path === undefined
    ? Promise.reject(new Error(CHROMIUM_MISSING))
    : chromium.launchServer({ ...optionsOf(path), host: "127.0.0.1" })
}
