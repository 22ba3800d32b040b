/** A database that is put back from a backup: what its rails did since is entered, and nothing is charged again (decision F9). */
import { describe, expect, it } from "vitest"
import { faults } from "../support/rails/fault.ts"
import { BOTH, DUE, type LiveAccount } from "../support/rails/live.ts"
import { useRestorable } from "../support/rails/restored.ts"
import { createCustomer, data } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const PRICE = 500_000

const stateOf = async ({ api }: LiveAccount, id: string) => {
  const { status, current_period_start, current_period_end } = data(await api.get(`/subscriptions/${id}`))
  return { status, current_period_start, current_period_end }
}

/** What the rail took, a list for each transaction. */
const taken = ({ merchant }: LiveAccount) =>
  [...merchant.books.transactions.values()].map(({ taken }) => taken).filter((one) => one.length > 0)

describe.each(BOTH)("%s: what was charged after the backup", (name) => {
  const world = useRestorable(name)

  it("is entered as it was, once, and goes on from there", { timeout: 120_000 }, async () => {
    const since = Date.now()
    const account = await world.open()
    const buyer = await account.buyer()
    const [renewed, dunned, quiet] = await Promise.all([
      account.subscribe(PRICE, buyer),
      account.subscribe(PRICE + 1, buyer),
      account.subscribe(PRICE + 2),
    ])
    await world.backUp()

    // Two periods of one, a failed attempt and a retry of another; a charge, and one that fails; what is new since.
    const alone = await account.charge(10_000, buyer)
    account.plan("charge", faults.decline("Insufficient Funds"), 20_000)
    const declined = await account.charge(20_000, buyer)
    account.plan("charge", faults.decline("Insufficient Funds"), PRICE + 1)
    await account.pass(DUE)
    const first = await account.settled((await account.latest(dunned)).id)
    expect(first).toMatchObject({ status: "failed", will_retry: true })
    await account.settled((await account.latest(renewed)).id)
    await account.settled((await account.latest(quiet)).id)
    await account.pass(Date.parse(first.next_retry_at) - Date.now())
    await account.settled((await account.latest(dunned)).id)
    await account.pass(DUE)
    for (const one of [renewed, dunned, quiet]) await account.settled((await account.latest(one)).id)
    const lost = await account.subscribe(PRICE + 3)
    const before = await Promise.all([renewed, dunned, quiet].map((one) => stateOf(account, one)))
    const charged = new Map((await account.api.all("/charges")).map((one) => [one.id, one]))
    const books = await account.books()

    await world.putBack()
    const money = taken(account)
    const dry = await world.recover(since, "--dry-run")
    expect(dry).toMatchObject({ code: 0 })
    const { shown } = await world.recover(since)
    expect(shown).toEqual(dry.shown)
    const lostCharges = [...charged.values()].filter(({ subscription }) => subscription === lost)
    expect(shown).toEqual({
      asked: 10 + 3,
      known: 3,
      recovered: 9,
      unplaced: [
        expect.objectContaining({
          reference: lostCharges[0].id,
          rail: name,
          account: account.id,
          subscription: lost,
          amount: PRICE + 3,
          status: "succeeded",
          reason: expect.stringContaining("is not in the database"),
        }),
      ],
    })
    // A second time there is nothing left to enter.
    const again = await world.recover(since, "--account", account.id)
    expect(again.shown).toMatchObject({ asked: 13, known: 12, recovered: 0, unplaced: [{ reference: lostCharges[0].id }] })

    await world.start()
    expect(await Promise.all([renewed, dunned, quiet].map((one) => stateOf(account, one)))).toEqual(before)
    for (const { id, status, amount, subscription, lines, failure_code, attempt_number, payment_method } of [
      ...(await account.api.all("/charges")),
    ])
      expect({ status, amount, subscription, lines, failure_code, attempt_number, payment_method }).toEqual({
        status: charged.get(id)?.status,
        amount: charged.get(id)?.amount,
        subscription: charged.get(id)?.subscription,
        lines: charged.get(id)?.lines,
        failure_code: charged.get(id)?.failure_code,
        attempt_number: charged.get(id)?.attempt_number,
        payment_method: charged.get(id)?.payment_method,
      })
    expect((await account.api.all("/charges")).length).toBe(charged.size - 1)
    expect(await account.events(alone.id)).toEqual(["charge.succeeded succeeded"])
    expect(await account.events(declined.id)).toEqual(["charge.failed failed"])
    expect(await account.events(first.id)).toEqual(["charge.failed failed", "charge.retry_scheduled failed"])
    const { clearing = 0 } = await account.books()
    expect(clearing).toBe(books.clearing! - (PRICE + 3))
    // Nothing is due, and nothing was charged meanwhile.
    await account.pass(0)
    expect(taken(account)).toEqual(money)
    await account.pass(DUE)
    for (const one of [renewed, dunned, quiet])
      expect(await account.settled((await account.latest(one)).id)).toMatchObject({ status: "succeeded" })
    expect(taken(account)).toEqual([...money, [expect.any(Number)], [expect.any(Number)], [expect.any(Number)]])
    expect(taken(account).flat().every((kobo) => kobo > 0)).toBe(true)
    await expectWhole(world.database)
    void createCustomer
  })
})
