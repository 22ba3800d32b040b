/** Tests the links of the dashboard: each leads to a page, there is one to every page, and a role is shown only what it may use. */
import { beforeAll, describe, expect, it } from "vitest"
import { caller } from "../../scripts/story.ts"
import { dashboardRoutes } from "../../src/dashboard/routes.ts"
import { ROLES } from "../../src/security/role/rights.ts"
import { crawl, linksIn } from "../support/crawl.ts"
import { checkPage } from "../support/dashboardPage.ts"
import { fillAccount } from "../support/filled.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"

const { database, server, accountId, keys } = useOwnInstance()

/** Enough to meet an object in each of its states. */
const EXAMPLES = 12

/** What no link of these pages leads to: files, parts that follow what happens, pages without a session, and an invoice before a month has ended. */
const NO_PAGE =
  /\/invoices\/:id$|\/assets\/|\/live$|\.csv$|\.pdf$|\/export$|\/json$|^\/dashboard$|\/(sign-in|sign-up|sign-out|links|invitations)\b|\/options$/

const navigationOf = (page: string): string => /<nav id="navigation".*<\/nav>/s.exec(page)![0]

beforeAll(async () => {
  const { origin } = server()
  const owner = await signedIn(database, origin, accountId())
  await fillAccount(database, { origin, account: accountId(), call: caller(origin, keys().sk_test) }, owner)
})

describe.each(ROLES)("%s", (role) => {
  it("is led only to pages that it may see", async () => {
    const pages = await crawl(await signedIn(database, server().origin, accountId(), role), 2)
    expect(pages.length).toBeGreaterThan(60)
    expect(pages.filter(({ status }) => status !== 200).map(({ path, status }) => `${status} ${path}`)).toEqual([])
    for (const { text } of pages) checkPage(text)
    const sections = linksIn(navigationOf(pages[0]!.text))
    expect(sections.length).toBeGreaterThan(8)
    for (const { path, text } of pages.filter(({ path }) => sections.includes(path)))
      expect(/href="([^"]+)" aria-current="page"/.exec(navigationOf(text))?.[1]).toBe(path)
  })
})

it("there is a link to every page", async () => {
  const owner = await signedIn(database, server().origin, accountId())
  const pages = await crawl(owner, EXAMPLES)
  const isVisited = (path: RegExp) => pages.some((page) => path.test(page.path.replace(/\?.*/, "")))
  const lonely = dashboardRoutes.filter(
    ({ route, path, methods }) => methods.GET !== undefined && !NO_PAGE.test(route) && !isVisited(path),
  )
  expect(lonely.map(({ route }) => route)).toEqual([])
})
