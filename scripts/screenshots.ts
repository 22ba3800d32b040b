/**
 * Takes pictures of every hosted page at three widths, light and dark, into `.data/screenshots` or the given folder, and docs/checkout.png.
 * Checks each page against the rules of docs/pages.md; exit code 1 if a page breaks one.
 */
import { mkdirSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import { createRequire } from "node:module"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import type { BrowserContext, Page } from "playwright-core"
import { pageHeaders } from "../src/pages/headers.ts"
import { launchBrowser } from "./browser.ts"
import { gallery, LOOK_PATH } from "./gallery.ts"

const ROOT = join(import.meta.dirname, "..")
const FOLDER = process.argv[2] ?? join(ROOT, ".data", "screenshots")
/** A page without a countdown: its picture is the same each time. */
const IN_DOCS = { page: "checkout-test-clock", path: join(ROOT, "docs", "checkout.png"), width: 768, height: 940 }
const WIDTHS = [320, 768, 1280]
const THEMES = ["light", "dark"] as const
const MAX_BYTES = 30_000

const PAGES = gallery()
const HEADERS = pageHeaders({ formActions: ["https://chidi.example"] })
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

const faults: Array<string> = []
let pictures = 0

/** Serves the pages with their real headers. */
const server = createServer(({ url }, response) => {
  const page = PAGES.get((url ?? "").slice(1))
  if (url === LOOK_PATH) {
    response.writeHead(200, { "content-type": "application/json" })
    response.end(JSON.stringify({ success: true, data: { status: "pending", redirect_url: null } }))
  } else if (page === undefined) response.writeHead(404).end()
  else response.writeHead(200, { ...HEADERS, "content-type": "text/html; charset=utf-8" }).end(page)
})

/** Records forbidden actions of a page. */
const watch = (page: Page, name: string, origin: string): void => {
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(`${name}: ${message.text()}`)
  })
  page.on("pageerror", (error) => faults.push(`${name}: ${error.message}`))
  page.on("request", (request) => {
    const url = request.url()
    if (!request.isNavigationRequest() && url !== origin + LOOK_PATH && url !== "data:,")
      faults.push(`${name} asks for ${url}.`)
  })
}

interface Violation {
  readonly id: string
  readonly nodes: ReadonlyArray<{ readonly html: string; readonly failureSummary: string }>
}

const accessible = async (page: Page, name: string): Promise<void> => {
  await page.evaluate(AXE)
  const violations = (await page.evaluate("axe.run().then(({ violations }) => violations)")) as ReadonlyArray<Violation>
  for (const { id, nodes } of violations)
    faults.push(`${name}: axe ${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`)
}

const picture = async (context: BrowserContext, origin: string, name: string, theme: string): Promise<void> => {
  const page = await context.newPage()
  watch(page, `${name}, ${theme}`, origin)
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 800 })
    if (width === WIDTHS[0]) await page.goto(`${origin}/${name}`)
    const wide = (await page.evaluate("document.documentElement.scrollWidth")) as number
    if (wide > width) faults.push(`${name}, ${theme}: ${wide} px wide at ${width} px.`)
    await page.screenshot({ path: join(FOLDER, `${name}-${width}-${theme}.png`), fullPage: true })
    pictures++
  }
  await accessible(page, `${name}, ${theme}`)
  if (theme === "light" && name === IN_DOCS.page) {
    await page.setViewportSize(IN_DOCS)
    await page.screenshot({ path: IN_DOCS.path })
  }
  await page.close()
}

for (const [name, text] of PAGES) {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_BYTES) faults.push(`${name}: ${bytes} bytes.`)
}
const browser = await launchBrowser()
if (browser === undefined) process.exit(1)
mkdirSync(FOLDER, { recursive: true })
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
await Promise.all(
  THEMES.map(async (colorScheme) => {
    const context = await browser.newContext({ colorScheme, reducedMotion: "reduce" })
    for (const name of PAGES.keys()) await picture(context, origin, name, colorScheme)
  }),
)
await browser.close()
server.close()
for (const fault of faults) process.stderr.write(`${fault}\n`)
process.stdout.write(`${pictures} pictures of ${PAGES.size} pages in ${FOLDER}; ${faults.length} faults.\n`)
process.exit(faults.length === 0 ? 0 : 1)
