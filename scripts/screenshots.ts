/**
 * Takes pictures of every page at three or four widths, light and dark, into `.data/screenshots` or the given folder: the states of the galleries,
 * and every page of the dashboard that links lead to in an account with the demo's story.
 * Checks each page against the rules of docs/pages.md; exit code 1 if a page breaks one.
 *
 *   npm run screenshots -- FOLDER dashboard-team    only the pages whose names begin so
 *   npm run screenshots -- docs                     renews the pictures of docs/
 */
import { mkdirSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import { createRequire } from "node:module"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { BrowserContext, Page } from "playwright-core"
import { ASSETS } from "../src/pages/dashboard/assets.ts"
import { DASHBOARD_HEADERS, pageHeaders } from "../src/pages/headers.ts"
import { crawl, type VisitedPage } from "../test/support/crawl.ts"
import { fillAccount } from "../test/support/filled.ts"
import { signedIn } from "../test/support/member.ts"
import { launchBrowser } from "./browser.ts"
import { dashboardGallery } from "./dashboardGallery.ts"
import { gallery, LOOK_PATH } from "./gallery.ts"
import { ownInstance } from "./ownInstance.ts"
import { caller } from "./story.ts"

const ROOT = join(import.meta.dirname, "..")
const [FOLDER = join(ROOT, ".data", "screenshots"), ONLY = ""] = process.argv.slice(2)
const THEMES = ["light", "dark"] as const
/** The pictures of docs/, and the part of the page that each shows. */
const IN_DOCS = [
  { page: "checkout-test-clock", file: "checkout.png", width: 768, height: 940 },
  { page: "dashboard-sandbox", file: "dashboard.png", width: 1280, height: 1000 },
  { page: "dashboard-sandbox-subscriptions-sub", file: "dashboard-subscription.png", width: 1280, height: 1500 },
  { page: "dashboard-sandbox-books", file: "dashboard-books.png", width: 1280, height: 800 },
  { page: "dashboard-sandbox-clocks-clock", file: "dashboard-clock.png", width: 1280, height: 1000 },
]
const isForDocs = FOLDER === "docs"

interface Kind {
  readonly pages: ReadonlyMap<string, string>
  readonly headers: Readonly<Record<string, string>>
  readonly widths: ReadonlyArray<number>
  readonly maxBytes: number
  /** What a page may load. */
  readonly files: ReadonlySet<string>
}

/** `/dashboard/sandbox/plans/{plan}` is `dashboard-sandbox-plans-plan`. A second example of a page has a number. */
const namesOf = (pages: ReadonlyArray<VisitedPage>): ReadonlyMap<string, string> => {
  const named = new Map<string, string>()
  for (const { pattern, text } of pages) {
    const name = (pattern.match(/\w+/g) ?? []).join("-")
    let unique = name
    for (let n = 2; named.has(unique); n++) unique = `${name}-${n}`
    named.set(unique, text)
  }
  return named
}

/** Examples of each page: objects in different states. */
const EXAMPLES = 2

/** The pages of the dashboard in an account with the demo's story. */
const storyPages = Effect.gen(function* () {
  const { pool, origin, account, key } = yield* ownInstance("screenshots")
  const run = <A, E>(program: (sql: SqlClient.SqlClient) => Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
    Effect.runPromise(Effect.provide(Effect.flatMap(SqlClient.SqlClient, program), pool))
  return yield* Effect.promise(async () => {
    const owner = await signedIn({ run }, origin, account)
    await fillAccount({ run }, { origin, account, call: caller(origin, key) }, owner)
    return namesOf(await crawl(owner, EXAMPLES))
  })
})

const KINDS: ReadonlyArray<Kind> = [
  {
    pages: gallery(),
    headers: pageHeaders({ formActions: ["https://chidi.example"] }),
    widths: [320, 768, 1280],
    maxBytes: 30_000,
    files: new Set([LOOK_PATH]),
  },
  {
    pages: new Map([...dashboardGallery(), ...(await Effect.runPromise(Effect.scoped(storyPages)))]),
    headers: DASHBOARD_HEADERS,
    widths: [320, 768, 1280, 1920],
    maxBytes: 60_000,
    files: new Set(ASSETS.map(({ path }) => path)),
  },
]
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

const FOLLOWED = /^\/dashboard\/.*\/live(\?|$)/

const faults: Array<string> = []
let pictures = 0

/** Serves the pages with their real headers, and the files that they load. */
const server = createServer(({ url = "" }, response) => {
  const kind = KINDS.find(({ pages }) => pages.has(url.slice(1)))
  const asset = ASSETS.find(({ path }) => path === url)
  if (url === LOOK_PATH) {
    response.writeHead(200, { "content-type": "application/json" })
    response.end(JSON.stringify({ success: true, data: { status: "pending", redirect_url: null } }))
  } else if (asset !== undefined) response.writeHead(200, { "content-type": asset.contentType }).end(asset.body)
  // Pages that follow what happens get nothing: `204` ends the attempt.
  else if (url === "/favicon.ico" || FOLLOWED.test(url)) response.writeHead(204).end()
  else if (kind === undefined) response.writeHead(404).end()
  else
    response
      .writeHead(200, { ...kind.headers, "content-type": "text/html; charset=utf-8" })
      .end(kind.pages.get(url.slice(1)))
})

/** Records forbidden actions of a page. */
const watch = (page: Page, name: string, origin: string, { files }: Kind): void => {
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(`${name}: ${message.text()}`)
  })
  page.on("pageerror", (error) => faults.push(`${name}: ${error.message}`))
  page.on("request", (request) => {
    const url = request.url()
    const path = url.slice(origin.length)
    const isFile = url.startsWith(origin) && (files.has(path) || FOLLOWED.test(path))
    if (!request.isNavigationRequest() && !isFile && url !== "data:,") faults.push(`${name} asks for ${url}.`)
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

const picture = async (context: BrowserContext, origin: string, name: string, theme: string, kind: Kind) => {
  const page = await context.newPage()
  watch(page, `${name}, ${theme}`, origin, kind)
  for (const [at, width] of kind.widths.entries()) {
    await page.setViewportSize({ width, height: 800 })
    if (at === 0) await page.goto(`${origin}/${name}`)
    const wide = (await page.evaluate("document.documentElement.scrollWidth")) as number
    if (wide > width) faults.push(`${name}, ${theme}: ${wide} px wide at ${width} px.`)
    await page.screenshot({ path: join(FOLDER, `${name}-${width}-${theme}.png`), fullPage: true })
    pictures++
  }
  await accessible(page, `${name}, ${theme}`)
  await page.close()
}

const pictureForDocs = async (context: BrowserContext, origin: string, of: (typeof IN_DOCS)[number]) => {
  const { page: name, file, ...size } = of
  const page = await context.newPage()
  await page.setViewportSize(size)
  await page.goto(`${origin}/${name}`)
  await page.screenshot({ path: join(ROOT, "docs", file) })
  await page.close()
  pictures++
}

const shown = KINDS.flatMap((kind) =>
  [...kind.pages].filter(([name]) => name.startsWith(ONLY)).map(([name, text]) => ({ kind, name, text })),
)
for (const { kind, name, text } of shown) {
  const bytes = Buffer.byteLength(text)
  if (bytes > kind.maxBytes) faults.push(`${name}: ${bytes} bytes.`)
}
const browser = await launchBrowser()
if (browser === undefined) process.exit(1)
if (!isForDocs) mkdirSync(FOLDER, { recursive: true })
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
if (isForDocs) {
  const context = await browser.newContext({ reducedMotion: "reduce" })
  for (const one of IN_DOCS) await pictureForDocs(context, origin, one)
} else
  await Promise.all(
    THEMES.map(async (colorScheme) => {
      const context = await browser.newContext({ colorScheme, reducedMotion: "reduce" })
      for (const { name, kind } of shown) await picture(context, origin, name, colorScheme, kind)
    }),
  )
await browser.close()
server.close()
for (const fault of faults) process.stderr.write(`${fault}\n`)
process.stdout.write(`${pictures} pictures in ${FOLDER}; ${faults.length} faults.\n`)
process.exit(faults.length === 0 ? 0 : 1)
