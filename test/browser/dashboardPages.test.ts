/** Tests every page of the dashboard in a browser: accessible, no wider than any screen, nothing loaded from elsewhere, in light and dark. */
import { expect, it } from "vitest"
import { caller } from "../../scripts/story.ts"
import { inspect, useMembers } from "../support/browser.ts"
import { crawl } from "../support/crawl.ts"
import { fillAccount } from "../support/filled.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"

const { database, server, accountId, keys } = useOwnInstance()
const newBrowser = useMembers(() => server().origin)

it("every page that links lead to", async () => {
  const { origin } = server()
  const owner = await signedIn(database, origin, accountId())
  await fillAccount(database, { origin, account: accountId(), call: caller(origin, keys().sk_test) }, owner)
  const { page, context } = await newBrowser()
  await context.addCookies([{ name: "session", value: owner.cookie, url: origin, httpOnly: true, sameSite: "Lax" }])
  const pages = await crawl(owner)
  expect(pages.length).toBeGreaterThan(100)
  for (const { path } of pages) {
    await page.goto(origin + path)
    await inspect(page)
  }
})

it.each(["/dashboard/sign-in", "/dashboard/sign-up", "/dashboard/invitations/x", "/dashboard/links/x"])(
  "%s, without a session",
  async (path) => {
    const { page } = await newBrowser()
    await page.goto(server().origin + path)
    await inspect(page)
  },
)
