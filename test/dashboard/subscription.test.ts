import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { advance, subscribe } from "../support/story.ts"

const { database, server, accountId, api } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const currentIn = (text: string) => /data-state="([^"]+)" aria-current="true"/.exec(text)?.[1]

/** A subscription that has renewed once. */
const lived = async () => {
  const { id, clock, customer } = await subscribe(api, "2027-01-01T09:00:00Z", "pm_test_success")
  await advance(api, clock, "2027-02-02T09:00:00Z")
  return { id, customer, clock }
}

describe("the page of a subscription", () => {
  it("shows what it is, what comes, its machine and what happened", async () => {
    const { id } = await lived()
    const owner = await member()
    const path = `/dashboard/sandbox/subscriptions/${id}`
    const page = await owner.get(path)
    expect(page.status).toBe(200)
    expect(page.text).toContain("<h1>Gym for Ada Obi</h1>")
    expect(page.text).toContain("₦5,000.00 for each period")
    expect(page.text).toMatch(/If all pay.*₦5,000\.00 is paid/s)
    expect(page.text).toContain("If all fail")
    expect(page.text).toContain("It was created")
    expect(page.text).toMatch(/by the API key ending in \w{4}/)
    expect(page.text).toContain("subscription.created")
    expect(page.text).not.toContain("style=")
    expect(Buffer.byteLength(page.text)).toBeLessThan(60_000)
  })

  it("shows the state, the context and the picture at any version", async () => {
    const { id } = await lived()
    const owner = await member()
    const path = `/dashboard/sandbox/subscriptions/${id}`
    const first = await owner.get(`${path}?version=1`)
    expect(currentIn(first.text)).toBe("opening")
    expect(first.text).toContain("<h1>Gym for Ada Obi</h1>")
    expect(first.text).toContain(`href="${path}?version=2#machine" rel="next"`)
    expect(first.text).not.toContain('rel="prev"')
    expect(first.text).toMatch(/<dt>Bill: purpose<\/dt><dd>first<\/dd>/)
    expect(first.text).toMatch(/<dt>Price<\/dt><dd>₦5,000\.00<\/dd>/)
    const second = await owner.get(`${path}?version=2`)
    expect(currentIn(second.text)).toBe("active.current")
    expect(second.text).toContain("A charge succeeded")
    const now = await owner.get(path)
    expect((await owner.get(`${path}?version=999`)).text).toContain(`data-state="${currentIn(now.text)}" aria-current`)
    expect((await owner.get(`${path}?version=x`)).status).toBe(200)
  })

  it("shows older transitions by a cursor", async () => {
    const { id } = await lived()
    const owner = await member()
    const path = `/dashboard/sandbox/subscriptions/${id}`
    const older = await owner.get(`${path}?before=${id}:2`)
    expect(older.text).toContain("It was created")
    expect(older.text).not.toContain(`version=2#machine">A charge succeeded`)
    expect(older.text).toContain("First page")
  })

  it("offers no action to a role that only sees, and is not of other accounts", async () => {
    const { id } = await lived()
    const finance = await member("finance")
    const path = `/dashboard/sandbox/subscriptions/${id}`
    const page = await finance.get(path)
    expect(page.text).not.toContain(`${path}/cancel`)
    expect((await (await member()).get(path)).text).toContain(`${path}/cancel`)
    expect((await finance.get("/dashboard/sandbox/subscriptions/sub_none")).status).toBe(404)
    expect((await finance.get(`/dashboard/live/subscriptions/${id}`)).status).toBe(404)
  })
})
