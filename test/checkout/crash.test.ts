/** Tests servers that die, pause or run in pairs while buyers pay: no buyer is charged twice, nothing is lost. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { ADA, createSession, declined, moneyOf, pay, submit, tally } from "../support/checkout.ts"
import { useDatabase } from "../support/database.ts"
import { holdTable } from "../support/hold.ts"
import { startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const PRICE = 500_000
const times = <T>(count: number, make: (n: number) => Promise<T>): Promise<ReadonlyArray<T>> =>
  Promise.all(Array.from({ length: count }, (_, n) => make(n)))

describe.concurrent("kill -9 of the server", () => {
  const crashed = useDatabase()

  it("before the rail received the payment, or before its answer was written, charges no buyer twice", async () => {
    const { keys } = await crashed.run(() => createAccount({ businessName: "Crash" }))
    const other = await crashed.run(() => createAccount({ businessName: "Another shop" }))
    let server = await startServer(crashed.url())
    const now = () => createApi(server.origin, keys.sk_test)
    const there = () => createApi(server.origin, other.keys.sk_test)
    const here = (url: string) => `${server.origin}${new URL(url).pathname}`
    const [plan, otherPlan] = [await createPlan(now()), await createPlan(there())]
    // One account's payments are settled one batch after the other, so the second buyer belongs to another account.
    const card = { ...ADA, payment_method: "pm_test_success_then_lost_card", submission: "the form" }
    const coded = { ...ADA, payment_method: "pm_test_requires_otp", otp: "123456", submission: "the form" }
    // The point at which the process dies, and the expected result for a buyer who typed a code.
    for (const [table, codeIsLost] of [
      ["simulator_attempt", true],
      ["ledger_entry", false],
    ] as const) {
      const [plain, guarded] = [await createSession(now(), { plan }), await createSession(there(), { plan: otherPlan })]
      const locked = await holdTable(crashed, table)
      /** Waits for this many commits with none or all at the rail: then an answer is still unwritten. */
      const waitForPending = (pending: number) =>
        eventually(async () => {
          const [row] = await crashed.run(
            (sql) => sql<{ pending: number; sent: number }>`
              SELECT count(*) AS pending, count(a.reference) AS sent
              FROM charge c LEFT JOIN simulator_attempt a ON a.reference = c.id WHERE c.status = 'pending'`,
          )
          return row!.pending === pending && row!.sent === (codeIsLost ? 0 : pending) ? true : undefined
        })
      const cut = [submit(here(plain.url), card).catch(() => undefined)]
      await waitForPending(1)
      await locked.waiters()
      cut.push(submit(here(guarded.url), coded).catch(() => undefined))
      await waitForPending(2)
      await server.kill()
      expect(await Promise.all(cut)).toEqual([undefined, undefined])
      await locked.end()
      server = await startServer(crashed.url())
      // The same forms again get the result of the first try, and start no new one.
      const [again, withCode] = await Promise.all([submit(here(plain.url), card), submit(here(guarded.url), coded)])
      expect(data(again).status).toBe("completed")
      // The process lost the code when it died. An unsent payment is declined without it, and may be tried again.
      if (codeIsLost) {
        expect(declined(withCode)).toEqual([402, "card_declined", "authentication_required"])
        const third = await submit(here(guarded.url), { ...coded, submission: "another form" })
        expect(data(third).status).toBe("completed")
      } else expect(data(withCode).status).toBe("completed")
      for (const [api, { id }] of [
        [now(), plain],
        [there(), guarded],
      ] as const) {
        const { status, subscription } = data(await api.get(`/checkout-sessions/${id}`))
        expect(status).toBe("completed")
        expect(await moneyOf(crashed, [subscription])).toMatchObject({
          paid: 1,
          refundable: 0,
          failed: codeIsLost && id === guarded.id ? 1 : 0,
          pending: 0,
          taken: 1,
          sent: 1,
          cash: PRICE,
        })
      }
    }

    // Twenty buyers at the same time, and a crash in the middle.
    const before = 4
    const sessions = await times(20, () => createSession(now(), { plan }))
    const number = (url: string) => ({ ...ADA, payment_method: "pm_test_success", submission: url })
    const cut = sessions.map(({ url }) => submit(here(url), number(url)).catch(() => undefined))
    await eventually(async () => {
      const [row] = await crashed.run(
        (sql) => sql<{ n: number }>`SELECT count(*) AS n FROM checkout_session WHERE status = 'completed'`,
      )
      return row!.n >= before + 3 ? true : undefined
    })
    await server.kill()
    await Promise.all(cut)
    server = await startServer(crashed.url())
    const answers = await Promise.all(sessions.map(({ url }) => submit(here(url), number(url))))
    expect(tally(answers)).toEqual({ completed: 20 })
    for (const { id } of sessions) {
      const { subscription } = data(await now().get(`/checkout-sessions/${id}`))
      expect(await moneyOf(crashed, [subscription])).toMatchObject({
        paid: 1,
        failed: 0,
        taken: 1,
        sent: 1,
        cash: PRICE,
      })
    }
    expect(await now().all("/customers")).toHaveLength(2 + 20)
    await expectWhole(crashed)
    expect(await server.stop()).toBe(0)
  })
})

describe.concurrent("without workers, and with two servers", () => {
  const apart = useDatabase()
  const DAY_MS = 86_400_000

  /** Makes a day pass for a session on the wall clock, including its journal. */
  const passDay = (id: string) =>
    apart.run((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          const ms = DAY_MS + 1000
          yield* sql`
            UPDATE checkout_session SET created_at = created_at - ${`${ms} milliseconds`}::interval, expires_at = expires_at - ${`${ms} milliseconds`}::interval
            WHERE id = ${id}`
          yield* sql`
            UPDATE lifecycle_journal SET event = event || jsonb_build_object('at', (event->>'at')::bigint - ${ms}::bigint, 'expiresAt', (event->>'expiresAt')::bigint - ${ms}::bigint)
            WHERE actor_id = ${id}`
          yield* sql`UPDATE timer SET due_at = due_at - ${`${ms} milliseconds`}::interval WHERE actor_id = ${id}`
        }),
      ),
    )

  it("a session on the wall clock expires in time: by a late submission, or by its timer", async () => {
    const { keys } = await apart.run(() => createAccount({ businessName: "Apart" }))
    const first = await startServer(apart.url(), { WORKERS: "0" })
    const idle = createApi(first.origin, keys.sk_test)
    const [plan, customer] = [await createPlan(idle), await createCustomer(idle)]
    const sessions = await times(2, async () => createSession(idle, { customer, plan: await createPlan(idle) }))
    for (const { id } of sessions) await passDay(id)
    const [late, left] = sessions as [(typeof sessions)[0], (typeof sessions)[0]]
    // Its timer has not fired.
    expect(data(await idle.get(`/checkout-sessions/${late.id}`)).status).toBe("open")
    const answers = await times(5, () => pay(late.url, "pm_test_success"))
    expect(tally(answers)).toEqual({ checkout_session_not_open: 5 })
    expect(data(await idle.get(`/checkout-sessions/${late.id}`)).status).toBe("expired")

    const second = await startServer(apart.url())
    await eventually(async () =>
      data(await idle.get(`/checkout-sessions/${left.id}`)).status === "expired" ? true : undefined,
    )
    for (const { id, subscription } of sessions) {
      expect(data(await idle.get(`/subscriptions/${subscription}`))).toMatchObject({
        status: "cancelled",
        cancellation_reason: "checkout_expired",
      })
      const types = (await idle.all("/events"))
        .filter(({ data: { object } }) => object.id === id || object.id === subscription)
        .map(({ type }) => type)
      expect(types).toEqual(["checkout_session.expired", "subscription.cancelled", "subscription.created"])
    }

    // Two servers share one database. A buyer may reach either one.
    for (let round = 0; round < 3; round++) {
      const { url, subscription } = await createSession(idle, { customer, plan })
      const at = (n: number) => `${[first, second][n % 2]!.origin}${new URL(url).pathname}`
      const paid = await times(10, (n) => pay(at(n), "pm_test_success"))
      expect(tally(paid)).toEqual({ completed: 1, checkout_session_not_open: 9 })
      expect(await moneyOf(apart, [subscription])).toMatchObject({ paid: 1, failed: 0, taken: 1, sent: 1, cash: PRICE })
    }
    await expectWhole(apart)
    expect(await Promise.all([first.stop(), second.stop()])).toEqual([0, 0])
  })
})
