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

/** What the pages of a part of the service must be like. */
interface Rules {
  readonly headers: Readonly<Record<string, RegExp>>
  readonly maxBytes: number
  /** Whether a page may ask for this, beside the pages that it leads to. */
  readonly mayAsk: (path: string, type: string) => boolean
}

const HEADERS: Rules["headers"] = { "cache-control": /^no-store$/, "x-content-type-options": /^nosniff$/ }

const OF_BUYERS: Rules = {
  headers: {
    ...HEADERS,
    "content-security-policy":
      /^default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; img-src data:; connect-src 'self'; form-action 'self'[^;]*; base-uri 'none'; frame-ancestors 'none'$/,
    "referrer-policy": /^no-referrer$/,
  },
  maxBytes: 30_000,
  mayAsk: (path, type) => path.endsWith("/return") && type === "fetch",
}

const OF_MEMBERS: Rules = {
  headers: {
    ...HEADERS,
    "content-security-policy":
      /^default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
    "referrer-policy": /^same-origin$/,
  },
  maxBytes: 60_000,
  mayAsk: (path, type) =>
    path.startsWith("/dashboard/assets/") ||
    (path.startsWith("/dashboard/") && ["fetch", "eventsource"].includes(type)),
}

/** The errors in the headers and the size of a page of ours. */
const faultsOf = (response: Response, rules: Rules): ReadonlyArray<string> => {
  const headers = response.headers()
  const about = `${response.status()} ${response.url()}`
  const wrong = Object.entries(rules.headers)
    .filter(([name, right]) => !right.test(headers[name] ?? ""))
    .map(([name]) => `${about} has the ${name} ${headers[name]}`)
  const bytes = Number(headers["content-length"] ?? Number.NaN)
  return bytes <= rules.maxBytes ? wrong : [...wrong, `${about} has ${bytes} bytes`]
}

/** The console reports every status but 200. These are intended. */
const isOfStatus = (text: string): boolean =>
  /^Failed to load resource: the server responded with a status of 4/.test(text)

const watch = (
  context: BrowserContext,
  rules: Rules,
  ours: string,
  shops: ReadonlyArray<string>,
  faults: Array<string>,
) => {
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
      if (!request.isNavigationRequest() && !rules.mayAsk(pathname, request.resourceType()))
        faults.push(`A page asks for ${request.url()}`)
    } else if (protocol !== "data:" && !shops.includes(origin)) faults.push(`Request to another host: ${request.url()}`)
  })
  context.on("response", (response) => {
    if (new URL(response.url()).origin === ours && response.request().isNavigationRequest())
      faults.push(...faultsOf(response, rules))
  })
  return asked
}

const useContexts = (rules: Rules, origin: () => string, shops: ReadonlyArray<() => string>) => {
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
      rules,
      origin(),
      shops.map((shop) => shop()),
      faults,
    )
    return { context, page: await context.newPage(), asked }
  }
}

/**
 * Call at the top of a test file. Each buyer is a new browser context. After each test no page may have logged an
 * error, violated its policy or requested another host, and all pages must have had their headers.
 */
export const useBuyers = (origin: () => string, ...shops: ReadonlyArray<() => string>) =>
  useContexts(OF_BUYERS, origin, shops)

/** The same for the dashboard: each is a browser of a member. */
export const useMembers = (origin: () => string) => useContexts(OF_MEMBERS, origin, [])

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
