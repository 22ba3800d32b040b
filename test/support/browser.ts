/** Opens the hosted pages in browsers, as buyers, and records page errors. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
  type Response,
} from "playwright-core"
import { afterEach, expect, inject } from "vitest"

/** For slow machines: otherwise no wait takes more than seconds. */
const LIMIT_MS = 300_000
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")
/** A phone; 200 % zoom on half of a small laptop; and that laptop. */
const WIDTHS = [320, 640, 1280]
const HEIGHT = 800
const MAX_BYTES = 30_000

/** One connection for each worker. */
let connected: Promise<Browser> | undefined
const browser = (): Promise<Browser> => {
  connected ??= chromium.connect(inject("chromium"))
  return connected
}

export interface Buyer {
  readonly context: BrowserContext
  readonly page: Page
  /** Every request, as `GET path`, without the merchant's pages. */
  readonly asked: ReadonlyArray<string>
}

const HEADERS: Readonly<Record<string, RegExp>> = {
  "content-security-policy":
    /^default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; img-src data:; connect-src 'self'; form-action 'self'[^;]*; base-uri 'none'; frame-ancestors 'none'$/,
  "cache-control": /^no-store$/,
  "referrer-policy": /^no-referrer$/,
  "x-content-type-options": /^nosniff$/,
}

/** The errors in the headers and the size of a page of ours. */
const faultsOf = (response: Response): ReadonlyArray<string> => {
  const headers = response.headers()
  const about = `${response.status()} ${response.url()}`
  const wrong = Object.entries(HEADERS)
    .filter(([name, right]) => !right.test(headers[name] ?? ""))
    .map(([name]) => `${about} has the ${name} ${headers[name]}`)
  const bytes = Number(headers["content-length"] ?? Number.NaN)
  return bytes <= MAX_BYTES ? wrong : [...wrong, `${about} has ${bytes} bytes`]
}

/** The console reports every status but 200. These are intended. */
const isOfStatus = (text: string): boolean =>
  /^Failed to load resource: the server responded with a status of 4/.test(text)

const watch = (context: BrowserContext, ours: string, shops: ReadonlyArray<string>, faults: Array<string>) => {
  const asked: Array<string> = []
  context.on("console", (message) => {
    const text = message.text()
    if (["error", "warning"].includes(message.type()) && !isOfStatus(text)) faults.push(`console: ${text}`)
  })
  context.on("weberror", (error) => faults.push(`error: ${error.error().message}`))
  context.on("request", (request) => {
    const { origin, pathname, protocol } = new URL(request.url())
    if (origin === ours) {
      asked.push(`${request.method()} ${pathname}`)
      const looksAtPayment = pathname.endsWith("/return") && request.resourceType() === "fetch"
      if (!request.isNavigationRequest() && !looksAtPayment) faults.push(`A page asks for ${request.url()}`)
    } else if (protocol !== "data:" && !shops.includes(origin)) faults.push(`Request to another host: ${request.url()}`)
  })
  context.on("response", (response) => {
    if (new URL(response.url()).origin === ours && response.request().isNavigationRequest())
      faults.push(...faultsOf(response))
  })
  return asked
}

/**
 * Call at the top of a test file. Each buyer is a new browser context. After each test no page may have logged an
 * error, violated its policy or requested another host, and all pages must have had their headers.
 */
export const useBuyers = (origin: () => string, ...shops: ReadonlyArray<() => string>) => {
  const contexts: Array<BrowserContext> = []
  const faults: Array<string> = []
  const meant: Array<RegExp> = []
  afterEach(async () => {
    await Promise.all(contexts.splice(0).map((context) => context.close()))
    const found = faults.splice(0)
    expect(found.filter((fault) => !meant.some((one) => one.test(fault)))).toEqual([])
    for (const one of meant.splice(0)) expect(found).toContainEqual(expect.stringMatching(one))
  })
  /** `expected`: errors that the test causes, which must occur. */
  return async (options: BrowserContextOptions = {}, expected: ReadonlyArray<RegExp> = []): Promise<Buyer> => {
    meant.push(...expected)
    const context = await (await browser()).newContext({ viewport: { width: WIDTHS[2]!, height: HEIGHT }, ...options })
    contexts.push(context)
    context.setDefaultTimeout(LIMIT_MS)
    const asked = watch(
      context,
      origin(),
      shops.map((shop) => shop()),
      faults,
    )
    return { context, page: await context.newPage(), asked }
  }
}

/** Waits for the page with this title. */
export const titled = (page: Page, name: string | RegExp): Promise<void> =>
  page.getByRole("heading", { level: 1, name, exact: true }).waitFor()

/** The value of an expression in the page. */
export const valueIn = <T>(page: Page, expression: string): Promise<T> => page.evaluate(expression) as Promise<T>

/** Waits until an expression in the page is true. */
export const comesTrue = async (page: Page, expression: string): Promise<void> => {
  await page.waitForFunction(expression)
}

/** All checks are done in light mode. Dark mode differs in colours only. */
const THEMES = { light: "", dark: "{ runOnly: ['color-contrast', 'link-in-text-block'] }" } as const

const violations = (page: Page, theme: keyof typeof THEMES): Promise<ReadonlyArray<string>> =>
  valueIn(
    page,
    `axe.run(${THEMES[theme]}).then(({ violations }) => violations.map(({ id, nodes }) => \`\${id}: \${nodes[0].html} \${nodes[0].failureSummary}\`))`,
  )

const PRINTED_CONTROLS =
  "[...document.querySelectorAll('button, .button, input:not([type=hidden]), select')].filter((one) => one.checkVisibility()).length"

/** Checks every page in every state: screen readers, each width, light and dark, and print. */
export const inspect = async (page: Page): Promise<void> => {
  const faults: Array<string> = []
  const about = await page.title()
  const { width, height } = page.viewportSize()!
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT })
    const wide = await valueIn<number>(
      page,
      "document.documentElement.scrollWidth - document.documentElement.clientWidth",
    )
    if (wide > 0) faults.push(`${about}: ${wide} px too wide at ${width} px`)
  }
  await page.setViewportSize({ width, height })
  await page.evaluate(AXE)
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme })
    faults.push(...(await violations(page, colorScheme)).map((violation) => `${about}, ${colorScheme}: ${violation}`))
  }
  await page.emulateMedia({ media: "print" })
  const controls = await valueIn<number>(page, PRINTED_CONTROLS)
  if (controls > 0) faults.push(`${about}: ${controls} controls are printed`)
  await page.emulateMedia({ media: null, colorScheme: null })
  expect(faults).toEqual([])
}
