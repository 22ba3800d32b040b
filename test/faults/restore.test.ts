/** Tests a restored database: the rails' later payments are entered, nothing is charged again (decision F9). */
import { describe, expect, it } from "vitest"
import { createApi } from "../support/api.ts"
import { open as openPage, submit } from "../support/checkout.ts"
import { beginPlan, createProduct } from "../support/instalments.ts"
import { faults } from "../support/rails/fault.ts"
import { BOTH, DUE, type LiveAccount } from "../support/rails/live.ts"
import { useRestorable } from "../support/rails/restored.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const PRICE = 500_000
const DAY_MS = 86_400_000

const stateOf = async ({ api }: LiveAccount, id: string) => {
  const { status, current_period_start, current_period_end } = data(await api.get(`/subscriptions/${id}`))
  return { status, current_period_start, current_period_end }
}

/** A charge without the instants of its creation and payment, which are a little after the rail's own time. */
// biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, as any client does
const withoutTimes = ({ created_at: _, paid_at, next_retry_at, ...charge }: any) => ({
  ...charge,
  paid: paid_at !== null,
})

/** The amounts that the rail took, one list for each transaction. */
const taken = ({ merchant }: LiveAccount) =>
  [...merchant.books.transactions.values()].map(({ taken }) => taken).filter((one) => one.length > 0)

describe.each(BOTH)("%s: charges after the backup", (name) => {
  const world = useRestorable(name)

  it("are entered unchanged, once, and billing continues from there", { timeout: 120_000 }, async () => {
    const since = Date.now()
    const account = await world.open()
    const buyer = await account.buyer()
    const [renewed, dunned, quiet] = await Promise.all([
      account.subscribe(PRICE, buyer),
      account.subscribe(PRICE + 1, buyer),
      account.subscribe(PRICE + 2),
    ])
    await world.backUp()

    // Two periods of one, a failed attempt and a retry of another, a charge, a failed charge, and new objects.
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
    // A second run finds nothing to enter.
    const again = await world.recover(since, "--account", account.id)
    expect(again.shown).toMatchObject({
      asked: 13,
      known: 12,
      recovered: 0,
      unplaced: [{ reference: lostCharges[0].id }],
    })

    await world.start()
    expect(await Promise.all([renewed, dunned, quiet].map((one) => stateOf(account, one)))).toEqual(before)
    const entered = await account.api.all("/charges")
    expect(entered.map(withoutTimes)).toEqual(
      [...charged.values()].filter(({ id }) => id !== lostCharges[0].id).map(withoutTimes),
    )
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
    expect(
      taken(account)
        .flat()
        .every((kobo) => kobo > 0),
    ).toBe(true)
    await expectWhole(world.database)
  })
})

describe.each(BOTH)("%s: buyers' payments on pages after the backup", (name) => {
  const world = useRestorable(name)
  const buyers = () => createApi(world.origin(), undefined, "live")
  /** Each start uses its own port. */
  const here = (url: string): string => url.replace(new URL(url).origin, world.origin())
  const hosted = async (page: string): Promise<string> => {
    const [row] = await world.database.run(
      (sql) => sql<{ id: string }>`SELECT id FROM charge WHERE page_id = ${page} ORDER BY id DESC LIMIT 1`,
    )
    return row!.id
  }
  const pay = async ({ rail }: LiveAccount, page: string): Promise<string> => {
    const reference = await hosted(page)
    await openPage((await rail.payOnPage(reference, "pay", { card: { last4: "0409" } }))!)
    return reference
  }

  it("complete the sessions they belong to", { timeout: 120_000 }, async () => {
    const since = Date.now()
    const account = await world.open()
    const { api } = account
    const urls = { success_url: "https://shop.example/welcome", cancel_url: "https://shop.example/plans" }
    const [ada, obi] = await Promise.all(
      ["ada@example.com", "obi@example.com"].map((email) => createCustomer(api, { email })),
    )
    const plan = await createPlan(api, { amount: PRICE, billing_cycle: "weekly" })
    const session = data(
      await api.post("/checkout-sessions", { mode: "subscription", plan, customer: ada, ...urls }),
      201,
    )
    const setup = data(await api.post("/checkout-sessions", { mode: "setup", customer: obi, ...urls }), 201)
    data(await api.patch("/providers/me/vertical", { vertical: "ecommerce" }))
    const savings = await beginPlan(buyers(), await createProduct(api))
    await world.backUp()

    data(await submit(here(session.url), {}))
    const first = await pay(account, session.id)
    data(await submit(here(setup.url), {}))
    const saving = await pay(account, setup.id)
    data(await submit(here(savings.paymentUrl), {}))
    const instalment = await pay(account, savings.id)
    const subscription = data(await api.get(`/charges/${first}`)).subscription
    // Renewed with the method that the page saved.
    await account.pass(DUE)
    const renewal = await account.settled((await account.latest(subscription)).id)
    expect(renewal.status).toBe("succeeded")
    // The amount taken to save a card was sent back.
    const returned = () => account.merchant.books.totalReturned()
    await eventually(async () => (returned() === 5_000 ? true : undefined))
    await world.putBack()
    const money = taken(account)
    const { shown } = await world.recover(since)
    expect(shown).toEqual({ asked: 4, known: 0, recovered: 4, unplaced: [] })
    await world.start()
    // Its first period starts at the instant in its metadata, from before time passed. The second follows it.
    const { status, current_period_start: begins } = await stateOf(account, subscription)
    expect([status, Date.parse(begins) > Date.now()]).toEqual(["active", true])
    expect(data(await api.get(`/checkout-sessions/${session.id}`)).status).toBe("completed")
    expect(data(await api.get(`/checkout-sessions/${setup.id}`)).status).toBe("completed")
    expect(data(await api.get(`/provider-savings/${savings.id}`))).toMatchObject({
      status: "active",
      amountPaid: 1_000,
    })
    for (const customer of [ada, obi])
      expect(data(await api.get(`/customers/${customer}`)).default_payment_method).toMatchObject({ last4: "0409" })
    expect(data(await api.get(`/charges/${instalment}`)).status).toBe("succeeded")
    // It is not sent back twice, and is recorded as returned.
    await eventually(async () => {
      const [verified] = await world.database.run(
        (sql) => sql`SELECT reference, status FROM finance.card_verifications WHERE account_id = ${account.id}`,
      )
      expect(verified).toMatchObject({ reference: saving })
      return verified?.status === "returned" ? true : undefined
    })
    expect(returned()).toBe(5_000)
    await account.pass(2 * DUE)
    expect(await account.settled((await account.latest(subscription)).id)).toMatchObject({ status: "succeeded" })
    expect(taken(account)).toEqual([...money, [PRICE]])
    await expectWhole(world.database)
  })
})

describe("a rail", () => {
  const world = useRestorable("paystack")

  it("is believed only within its account's limits, and its data is bounded", { timeout: 120_000 }, async () => {
    const since = Date.now()
    const [account, other] = [await world.open(), await world.open()]
    const { books } = account.merchant
    const buyer = await account.buyer()
    const [reversed, pending] = await Promise.all([account.subscribe(PRICE, buyer), account.subscribe(PRICE + 1)])
    // Recorded as pending: the rail has it, and its answer is not in the copied database.
    account.plan("charge", faults.silenceAfter(), PRICE + 1)
    await account.pass(DUE)
    const open = await account.latest(pending)
    await eventually(async () => ((await account.see(open.id)).state === "pending.waiting" ? true : undefined))
    await world.backUp()

    expect(await account.ask(open.id)).toMatchObject({ status: "succeeded" })
    await account.pass(DUE)
    const sentBack = await account.settled((await account.latest(reversed)).id)
    await account.settled((await account.latest(pending)).id)
    books.refund(books.get(sentBack.id), PRICE, { kind: "success" })
    const forged = await Promise.all([1, 2, 3, 4, 5].map((n) => account.charge(10_000 + n, buyer)))
    const edit = (index: number, change: object) => {
      const transaction = books.get(forged[index].id)
      transaction.metadata = { ...(transaction.metadata as object), ...change }
    }
    edit(0, { account: other.id })
    edit(1, { environment: "sandbox" })
    edit(2, { customer: (await other.buyer()).customer })
    edit(3, { amount: "1" })
    books.get(forged[4].id).metadata = "none"

    await world.putBack()
    const money = taken(account)
    books.listsWithoutEnd = true
    const endless = await world.recover(since)
    expect(endless.code).toBe(1)
    expect(endless.errors).toContain(`paystack could not be asked for ${account.id}: it lists more than 2000 pages`)
    expect(endless.shown).toEqual({ asked: 0, known: 0, recovered: 0, unplaced: [] })
    books.listsWithoutEnd = false

    const { shown } = await world.recover(since)
    expect(shown).toMatchObject({ asked: 11, known: 4, recovered: 2 })
    expect(
      shown.unplaced.map(({ reference, reason }: Record<string, string>) => [reference, reason]).toSorted(),
    ).toEqual(
      [
        [forged[0].id, `its metadata names the account ${other.id}`],
        [forged[1].id, "its metadata names the environment sandbox"],
        [forged[2].id, expect.stringMatching(/^customer cus_\S+ is not in the database/)],
        [forged[3].id, "it carries no metadata by which it could be entered"],
        [forged[4].id, "it carries no metadata by which it could be entered"],
      ].toSorted(),
    )
    await world.start()
    expect(await other.api.all("/charges")).toEqual([])
    expect(data(await account.api.get(`/charges/${open.id}`)).status).toBe("succeeded")
    // It was paid, and its period is served. The merchant's refund at the rail is an exception.
    expect(data(await account.api.get(`/charges/${sentBack.id}`)).status).toBe("succeeded")
    expect(await account.exceptions()).toEqual([["failed_after_success", sentBack.id, null]])
    await account.pass(DUE)
    for (const one of [reversed, pending])
      expect(await account.settled((await account.latest(one)).id)).toMatchObject({ status: "succeeded" })
    expect(taken(account).length).toBe(money.length + 2)
    await expectWhole(world.database)
  })
})

describe("a subscription", () => {
  const world = useRestorable("paystack")

  it("that was resumed, or delivered, continues from the period that was paid then", {
    timeout: 120_000,
  }, async () => {
    const since = Date.now()
    const [pausing, delivering] = [await world.open(), await world.open()]
    const begin = async (account: LiveAccount, terms: object) => {
      const { customer, method } = await account.buyer()
      const plan = await createPlan(account.api, { amount: 700_000, ...terms })
      const made = { customer, plan, payment_method: method }
      const { id } = data(await account.api.post("/subscriptions", made), 201)
      await account.settled((await account.latest(id)).id)
      return id
    }
    const weekly = { billing_cycle: "weekly", pause_enabled: true, pro_rate: true }
    // One subscription's pause is in the backup, the other's is not.
    const [backedUp, lost] = [await begin(pausing, weekly), await begin(pausing, weekly)]
    const delivered = await begin(delivering, { billing_cycle: "per_delivery" })
    await pausing.pass(2 * DAY_MS)
    data(await pausing.api.post(`/subscriptions/${backedUp}/pause`, {}))
    await world.backUp()

    data(await pausing.api.post(`/subscriptions/${lost}/pause`, {}))
    await pausing.pass(DAY_MS)
    for (const id of [backedUp, lost]) data(await pausing.api.post(`/subscriptions/${id}/resume`, {}))
    data(await delivering.api.post(`/subscriptions/${delivered}/unit-records`, { quantity: 2 }), 201)
    const ids: ReadonlyArray<readonly [LiveAccount, string]> = [
      [pausing, backedUp],
      [pausing, lost],
      [delivering, delivered],
    ]
    for (const [account, id] of ids)
      expect(await account.settled((await account.latest(id)).id)).toMatchObject({ status: "succeeded" })
    const seen = () =>
      Promise.all(
        ids.map(async ([account, id]) => {
          const { amount, lines } = await account.latest(id)
          return [await stateOf(account, id), amount, lines]
        }),
      )
    const before = await seen()

    await world.putBack()
    const { shown } = await world.recover(since)
    expect(shown).toEqual({ asked: 6, known: 3, recovered: 3, unplaced: [] })
    await world.start()
    expect(await seen()).toEqual(before)
    await expectWhole(world.database)
    const money = taken(pausing)
    await pausing.pass(DUE)
    for (const id of [backedUp, lost])
      expect(await pausing.settled((await pausing.latest(id)).id)).toMatchObject({
        status: "succeeded",
        amount: 700_000,
      })
    expect(taken(pausing)).toEqual([...money, [700_000], [700_000]])
    await expectWhole(world.database)
  })
})
