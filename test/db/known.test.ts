import { expect, it } from "vitest"
import { RememberedRows } from "../../src/db/known.ts"

const TENANT = { account_id: "acct_1", livemode: false }
const row = (id: string, name = id) => ({ ...TENANT, id, name })

it("forgets what nobody has asked for longest, once it remembers as much as it may", () => {
  const remembered = new RememberedRows<ReturnType<typeof row>>(3)
  for (const id of ["a", "b", "c"]) remembered.note(row(id))
  expect(remembered.find(row("a"))).toEqual(row("a"))
  remembered.note(row("b", "anew"))
  remembered.note(row("d"))
  expect(["a", "b", "c", "d"].map((id) => remembered.find(row(id))?.name)).toEqual(["a", "anew", undefined, "d"])
  remembered.forget(row("a"))
  expect(remembered.find(row("a"))).toBeUndefined()
})

it("shows a row to its own tenant alone", () => {
  const remembered = new RememberedRows<ReturnType<typeof row>>(3)
  remembered.note(row("a"))
  expect(remembered.find({ ...row("a"), livemode: true })).toBeUndefined()
  expect(remembered.find({ ...row("a"), account_id: "acct_2" })).toBeUndefined()
  expect(remembered.find(row("a"))).toEqual(row("a"))
})
