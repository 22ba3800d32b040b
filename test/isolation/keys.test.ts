import { describe, expect, it } from "vitest"
import { type AccountKey, KeyCache } from "../../src/security/key/KeyCache.ts"

const key = (id: string, account_id: string): AccountKey => ({
  kind: "account",
  id,
  account_id,
  livemode: false,
  last4: "abcd",
  type: "secret",
  scopes: {},
  origins: [],
  expires_at: null,
  revoked_at: null,
  live_access: "not_requested",
  api_plan: "starter",
})

const listening = (): KeyCache => {
  const remembered = new KeyCache()
  remembered.listening(true)
  return remembered
}

describe("cached keys (decision J5)", () => {
  const [mine, theirs] = [key("key_1", "acct_1"), key("key_2", "acct_2")]

  it("are trusted for five seconds", () => {
    const remembered = listening()
    remembered.set("a", mine, { at: 1_000, changes: remembered.changes })
    expect(remembered.get("a", 5_999)).toBe(mine)
    expect(remembered.get("a", 6_000)).toBeUndefined()
  })

  it("are not used while changes are not received", () => {
    const remembered = new KeyCache()
    remembered.set("a", mine, { at: 0, changes: remembered.changes })
    expect(remembered.get("a", 1)).toBeUndefined()
    remembered.listening(true)
    remembered.set("a", mine, { at: 0, changes: remembered.changes })
    expect(remembered.get("a", 1)).toBe(mine)
    remembered.listening(false)
    expect(remembered.get("a", 1)).toBeUndefined()
  })

  it("are not stored if a change came during the look-up", () => {
    const remembered = listening()
    const { changes } = remembered
    remembered.changed("a")
    remembered.set("a", mine, { at: 0, changes })
    expect(remembered.get("a", 1)).toBeUndefined()
  })

  it("are dropped when the key or its account changes, and kept when others change", () => {
    const remembered = listening()
    const remember = () => {
      for (const [name, cached] of [
        ["a", mine],
        ["b", mine],
        ["c", theirs],
      ] as const)
        remembered.set(name, cached, { at: 0, changes: remembered.changes })
    }
    const left = () => ["a", "b", "c"].filter((name) => remembered.get(name, 1) !== undefined)
    remember()
    remembered.changed("b")
    expect(left()).toEqual(["a", "c"])
    remember()
    remembered.changed("acct_1")
    expect(left()).toEqual(["c"])
    remembered.changed("acct_1")
    expect(left()).toEqual(["c"])
  })
})
