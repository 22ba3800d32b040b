/** Tests deletions in the background: bounded batches, in turn, across restarts, hidden from the API immediately. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { CLOCK_STEPS, expireClocks } from "../../src/billing/clock/deletion.ts"
import { checkLedger } from "../../src/ledger/ledger.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { requestDeletions, SANDBOX } from "../../src/process/deletion/deletion.ts"
import { deletionBatches, nextSize } from "../../src/process/deletion/worker.ts"
import { requestReset, SANDBOX_STEPS } from "../../src/sandbox/reset.ts"
import { createApi } from "../support/api.ts"
import { fullClock, rowsLeft } from "../support/clockfull.ts"
import { type TestDatabase, useDatabase } from "../support/database.ts"
import { useOwnInstance } from "../support/instance.ts"
import { startServer } from "../support/server.ts"
import { createClock, createCustomer, createPlan, data, eventually, refusal, subscribe } from "../support/story.ts"

/** It serves requests only: the tests run the deletions. */
const { api, database, server, stranger } = useOwnInstance(() => ({ WORKERS: "0" }))

const stepsOf = ({ id }: { readonly id: string }) => (id === SANDBOX ? SANDBOX_STEPS : CLOCK_STEPS)

const account = (businessName: string, on: TestDatabase = database) => on.run(() => createAccount({ businessName }))

/** Requests a deletion and waits until it is marked, not for the answer, which takes seconds. */
const beginDeletion = async (caller: typeof api, clock: string) => {
  const answer = caller.delete(`/test/clocks/${clock}`)
  await eventually(async () => ((await caller.get(`/test/clocks/${clock}`)).status === 404 ? true : undefined))
  return answer
}

/** Waits until this many deletions are requested. */
const marked = (deletions: number) =>
  eventually(async () => {
    const rows = await database.run((sql) => sql`SELECT 1 FROM deletion`)
    return rows.length === deletions ? true : undefined
  })

const total = async (clock: string): Promise<number> =>
  Object.values(await database.run(() => rowsLeft(clock))).reduce((sum, n) => sum + n, 0)

/** Locks a row until it is released. */
const holdRow = async (on: TestDatabase, table: string, id: string) => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const { promise: locked, resolve: lock } = Promise.withResolvers<void>()
  const lockHolder = on.run((sql) =>
    sql.withTransaction(
      sql`SELECT 1 FROM ${sql(table)} WHERE id = ${id} FOR UPDATE`.pipe(
        Effect.tap(() => Effect.sync(lock)),
        Effect.andThen(Effect.promise(() => released)),
      ),
    ),
  )
  await locked
  return async () => {
    release()
    await lockHolder
  }
}

const deleteAll = (batch: ReturnType<typeof deletionBatches>) =>
  database.run(() => Effect.repeat(batch, { while: (found) => found }))

describe("a clock that is being deleted", () => {
  it("is hidden from the API before its rows are deleted, and the answer needs no worker", async () => {
    const { clock, customer, plan, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    const other = await createClock(api, "2025-01-01T00:00:00Z")
    const answer = beginDeletion(api, clock)
    await eventually(async () => ((await api.get(`/test/clocks/${clock}`)).status === 404 ? true : undefined))
    const missing = [404, "resource_missing", null]
    const later = { frozen_time: "2025-02-01T00:00:00Z" }
    expect(refusal(await api.post(`/test/clocks/${clock}/advance`, later))).toEqual(missing)
    expect(refusal(await api.delete(`/test/clocks/${clock}`))).toEqual(missing)
    expect((await api.all("/test/clocks")).map((one) => one.id)).toEqual([other])
    const joining = { name: "Late", test_clock: clock }
    expect(refusal(await api.post("/customers", joining))).toEqual([400, "resource_missing", "test_clock"])
    const urls = { success_url: "https://shop.example/done", cancel_url: "https://shop.example/back" }
    for (const naming of [
      await api.post("/subscriptions", { customer, plan }),
      await api.post("/charges", { customer, amount: 1000, currency: "NGN", payment_method: "pm_test_visa" }),
      await api.post("/nudges", { customer, template: "payment_due" }),
      await api.post("/checkout-sessions", { mode: "subscription", plan, customer, ...urls }),
    ])
      expect(refusal(naming)).toEqual([400, "resource_missing", "customer"])
    for (const tried of [
      await api.patch(`/customers/${customer}`, { name: "New" }),
      await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_visa" }),
      await api.post(`/subscriptions/${id}/cancel`),
      await api.post(`/subscriptions/${id}/unit-records`, { quantity: 1 }),
    ])
      expect(refusal(tried)).toEqual(missing)
    expect(refusal(await api.post("/test/events/trigger", { type: "a.b", object: customer }))).toEqual([
      400,
      "resource_missing",
      "object",
    ])
    expect(data(await api.get(`/customers/${customer}?expand[]=test_clock`)).test_clock).toBe(clock)
    expect(data(await answer)).toEqual({ id: clock, object: "test_clock", livemode: false, deleted: true })
    await deleteAll(deletionBatches(stepsOf))
    expect((await api.get(`/customers/${customer}`)).status).toBe(404)
    expect(await total(clock)).toBe(0)
  })

  it("is deleted once if two requests come at the same time", async () => {
    for (let round = 0; round < 3; round++) {
      const clock = await createClock(api, "2025-01-01T00:00:00Z")
      const answers = [api.delete(`/test/clocks/${clock}`), api.delete(`/test/clocks/${clock}`)]
      const first = await Promise.race(answers)
      await deleteAll(deletionBatches(stepsOf))
      expect(first.status).toBe(404)
      expect((await Promise.all(answers)).map(({ status }) => status).sort()).toEqual([200, 404])
    }
  })
})

describe("batches", () => {
  const CROWD = useDatabase()
  const MAX_ROWS = 20

  it("are bounded, in turn by account, and delete all of a clock and nothing of its neighbour", async () => {
    const size = { customers: 12, journal: 50, events: 6 }
    const [one, two] = [await account("One"), await account("Two")]
    const [huge, kept, hugeToo] = await database.run(() =>
      Effect.all([
        fullClock(one.account.id, "huge", size),
        fullClock(one.account.id, "kept", size),
        fullClock(two.account.id, "hugetoo", size),
      ]),
    )
    const batch = deletionBatches(stepsOf, MAX_ROWS)
    const next = () => database.run(() => batch)
    const mine = createApi(server().origin, one.keys.sk_test)
    const answers = [beginDeletion(mine, huge), beginDeletion(createApi(server().origin, two.keys.sk_test), hugeToo)]
    await marked(2)
    const before = await database.run(() => rowsLeft(kept))
    let left = [await total(huge), await total(hugeToo)] as const
    // The journal of one subscription alone is longer than a batch.
    expect(left[0]).toBeGreaterThan(30 * MAX_ROWS)
    for (let round = 0; round < 10; round++) {
      await next()
      await next()
      const now = [await total(huge), await total(hugeToo)] as const
      for (const [index, n] of now.entries()) {
        expect(left[index]! - n).toBeGreaterThan(0)
        // Payment methods and timers are deleted with their owners.
        expect(left[index]! - n).toBeLessThanOrEqual(2 * MAX_ROWS)
      }
      left = now
    }
    // A small clock of the first account is done while the large ones are in progress.
    const small = await createClock(mine, "2025-01-01T00:00:00Z")
    const deleted = mine.delete(`/test/clocks/${small}`)
    await eventually(async () => ((await mine.get(`/test/clocks/${small}`)).status === 404 ? true : undefined))
    await next()
    await next()
    expect(data(await deleted).id).toBe(small)
    expect(await total(small)).toBe(0)
    expect(await total(huge)).toBeGreaterThan(0)
    await deleteAll(batch)
    expect([await total(huge), await total(hugeToo)]).toEqual([0, 0])
    expect(await database.run(() => rowsLeft(kept))).toEqual(before)
    for (const answer of answers) expect((await answer).status).toBe(200)
  })

  it("get smaller if one is slow, and larger again", () => {
    expect([nextSize(1_000, 251), nextSize(15, 60_000), nextSize(10, 10), nextSize(800, 10)]).toEqual([
      250, 10, 20, 1_000,
    ])
  })

  it("read only what they delete, however much other data exists", async () => {
    const { account: crowded } = await account("Crowded", CROWD)
    const size = { customers: 400, journal: 4, events: 6 }
    const crowd = await CROWD.run(() => fullClock(crowded.id, "crowd", size))
    const doomed = await CROWD.run(() => fullClock(crowded.id, "doomed", size))
    await CROWD.run(
      (sql) => sql`
        WITH made AS (
          INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, occurred_on, effective_on, line_count)
          SELECT ${crowded.id}, false, 'le_' || n, 'paid', 'made_up:' || n, '2025-01-01', '2025-01-01', 2 FROM generate_series(1, 400) AS s (n) RETURNING id
        )
        INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, currency, amount_kobo, effective_on)
        SELECT ${crowded.id}, false, id, n, 'clearing', 'NGN', 3 - 2 * n, '2025-01-01' FROM made, generate_series(1, 2) AS s (n)`,
    )
    // Most customers of one clock have no charges, and the last has as many as all customers of the other.
    await CROWD.run((sql) =>
      Effect.gen(function* () {
        const [last] = yield* sql<{ id: string }>`SELECT max(id) AS id FROM customer WHERE test_clock_id = ${doomed}`
        yield* sql`DELETE FROM charge WHERE customer_id IN (SELECT id FROM customer WHERE test_clock_id = ${doomed} ORDER BY id LIMIT 300)`
        yield* sql`
          INSERT INTO charge (account_id, livemode, id, customer_id, test_clock_id, attempt_number, amount_kobo, lines, rail, state, status, version, sent_at, failure_code, created_at)
          SELECT ${crowded.id}, false, 'chg_last' || lpad(n::text, 6, '0'), ${last!.id}, ${doomed}, 1, 5000, '[]', 'simulator', 'failed', 'failed', 0, now(), 'declined', now()
          FROM generate_series(1, 800) AS s (n)`
      }),
    )
    // Foreign keys look rows up by any index that the tables' statistics suggest.
    await CROWD.run((sql) => sql`ANALYZE`.unprepared)
    const batch = deletionBatches(stepsOf, MAX_ROWS)
    /** The number of rows that a batch reads of all tables. undefined if nothing is left to delete. */
    const measured = () =>
      CROWD.run((sql) => {
        const read = Effect.map(
          sql<{ rows: number }>`
            SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::bigint AS rows FROM pg_stat_xact_user_tables`,
          ([row]) => row!.rows,
        )
        return sql.withTransaction(
          Effect.gen(function* () {
            const before = yield* read
            return (yield* batch) ? (yield* read) - before : undefined
          }),
        )
      })
    const measuredAll = async () => {
      const reads: Array<number> = []
      for (let rows = await measured(); rows !== undefined; rows = await measured()) reads.push(rows)
      return reads
    }
    const sandbox = { account_id: crowded.id, livemode: false }
    await CROWD.run(() => requestDeletions([{ ...sandbox, id: doomed }]))
    const ofClock = await measuredAll()
    await CROWD.run(() => requestReset(sandbox, null))
    const ofSandbox = await measuredAll()
    for (const clock of [crowd, doomed])
      expect(Object.values(await CROWD.run(() => rowsLeft(clock))).every((n) => n === 0)).toBe(true)
    for (const reads of [ofClock, ofSandbox]) {
      expect(reads.length).toBeGreaterThan(300)
      // Each row is found to be locked and again to be deleted, as are its dependent rows.
      expect(Math.max(...reads)).toBeLessThan(10 * MAX_ROWS)
    }
  })

  it("start again if rows were added to a deleted object, and never wait for a locked row", async () => {
    const made = await account("Busy")
    const mine = createApi(server().origin, made.keys.sk_test)
    const size = { customers: 3, journal: 2, events: 1 }
    const [clock, other] = await database.run(() =>
      Effect.all([fullClock(made.account.id, "busy", size), fullClock(made.account.id, "busyother", size)]),
    )
    const answers = [beginDeletion(mine, clock), beginDeletion(mine, other)]
    await marked(2)
    const batch = deletionBatches(stepsOf, MAX_ROWS)
    const customers = await database.run(
      (sql) => sql<{ id: string }>`SELECT id FROM customer WHERE test_clock_id = ${clock} ORDER BY id`,
    )
    const release = await holdRow(database, "customer", customers[0]!.id)
    await eventually(async () => {
      await database.run(() => batch)
      const past = ["subscription", "customer"]
      const [row] = await database.run((sql) => sql<{ step: string }>`SELECT step FROM deletion WHERE id = ${clock}`)
      return past.includes(row!.step) && (await total(other)) === 0 ? true : undefined
    })
    // As a worker in the middle of the deletion would.
    await database.run(
      (sql) => sql`
        INSERT INTO charge (account_id, livemode, id, customer_id, test_clock_id, attempt_number, amount_kobo, lines, rail, state, status, version, sent_at, failure_code, created_at)
        VALUES (${made.account.id}, false, 'chg_0late', ${customers.at(-1)!.id}, ${clock}, 1, 5000, '[]', 'simulator', 'failed', 'failed', 0, now(), 'declined', now())`,
    )
    await release()
    await eventually(async () => {
      await database.run(() => batch)
      return (await total(clock)) === 0 ? true : undefined
    })
    for (const answer of answers) expect((await answer).status).toBe(200)
  })
})

describe("an expired clock", () => {
  it("is deleted even if another deletion is blocked", async () => {
    const mine = await createClock(api, "2025-01-01T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: mine })
    const others = await createClock(stranger, "2025-01-01T00:00:00Z")
    const release = await holdRow(database, "customer", customer)
    await database.run(
      (sql) =>
        sql`UPDATE test_clock SET deletes_at = now() - interval '1 minute' WHERE id = ANY(${[mine, others]}::text[])`,
    )
    await database.run(() => expireClocks)
    expect((await api.get(`/test/clocks/${mine}`)).status).toBe(404)
    expect((await stranger.get(`/test/clocks/${others}`)).status).toBe(404)
    const batch = deletionBatches(stepsOf)
    await database.run(() => batch)
    await database.run(() => batch)
    expect([await total(others), (await api.get(`/customers/${customer}`)).status]).toEqual([0, 200])
    await release()
    await eventually(async () => {
      await database.run(() => batch)
      return (await total(mine)) === 0 ? true : undefined
    })
  })
})

describe("a reset", () => {
  it("runs in batches: the marker last, the books balanced after each, two accounts in parallel", async () => {
    const made = [await account("First"), await account("Second")]
    const callers = made.map(({ keys }) => createApi(server().origin, keys.sk_test))
    for (const caller of callers) {
      const plan = await createPlan(caller)
      for (let n = 0; n < 6; n++)
        data(
          await caller.post("/subscriptions", {
            customer: await createCustomer(caller),
            plan,
            payment_method: "pm_test_success",
          }),
          201,
        )
      data(await caller.post("/test/clocks", { frozen_time: "2025-01-01T00:00:00Z" }), 201)
    }
    const kept = await createCustomer(api)
    // A moving clock is stopped.
    await database.run(
      (sql) =>
        sql`UPDATE test_clock SET state = 'advancing', target_at = now() WHERE account_id = ${made[0]!.account.id}`,
    )
    for (const caller of callers) expect((await caller.post("/test/reset", { confirm: "RESET" })).status).toBe(202)
    const batch = deletionBatches(stepsOf, 3)
    const entries = () =>
      database.run(
        (sql) => sql<{ n: number }>`
          SELECT (SELECT count(*) FROM ledger_entry e WHERE e.account_id = a.id) AS n FROM account a
          WHERE a.id = ANY(${made.map(({ account }) => account.id)}::text[]) ORDER BY a.id`,
      )
    let transactions = 0
    let both = false
    while (await database.run(() => batch)) {
      transactions++
      expect(await database.run(() => checkLedger())).toMatchObject({ ok: true, problems: [] })
      const markers = await database.run((sql) => sql<{ account_id: string }>`SELECT account_id FROM sandbox_reset`)
      for (const { account_id } of markers) {
        const caller = callers[made.findIndex(({ account }) => account.id === account_id)]!
        expect(refusal(await caller.post("/customers", { name: "Meanwhile" }))).toEqual([
          409,
          "reset_in_progress",
          null,
        ])
      }
      const left = await entries()
      if (left.every(({ n }) => n > 0 && n < 6)) both = true
    }
    expect(transactions).toBeGreaterThan(20)
    // Neither waited for the other.
    expect(both).toBe(true)
    for (const caller of callers) {
      for (const list of ["/plans", "/customers", "/subscriptions", "/charges", "/events", "/test/clocks"])
        expect((await caller.get(list)).body.data, list).toEqual([])
      await createCustomer(caller)
    }
    data(await api.get(`/customers/${kept}`))
  })
})

describe("kill -9", () => {
  const FATE = useDatabase()

  it("in the middle of a deletion loses nothing: the next server continues", async () => {
    const made = await account("Crash", FATE)
    const size = { customers: 300, journal: 3, events: 4 }
    const [clock, kept] = await FATE.run(() =>
      Effect.all([fullClock(made.account.id, "crash", size), fullClock(made.account.id, "kept", size)]),
    )
    const left = (of: string) => FATE.run(() => rowsLeft(of))
    const before = await left(kept)
    // The first, so that a batch of any size meets it. On a slow machine batches are small.
    const [next] = await FATE.run(
      (sql) => sql<{ id: string }>`SELECT id FROM customer WHERE test_clock_id = ${clock} ORDER BY id LIMIT 1`,
    )
    const release = await holdRow(FATE, "customer", next!.id)
    const first = await startServer(FATE.url())
    const lost = createApi(first.origin, made.keys.sk_test)
      .delete(`/test/clocks/${clock}`)
      .catch(() => undefined)
    const half = await eventually(async () => {
      const now = await left(clock)
      return now.charge === 0 ? now : undefined
    })
    await first.kill()
    await lost
    expect([half.customer, half.event]).toEqual([300, 300 * 4])
    await release()
    const second = await startServer(FATE.url())
    await eventually(async () => (Object.values(await left(clock)).every((n) => n === 0) ? true : undefined))
    expect(await left(kept)).toEqual(before)
    expect(await second.stop()).toBe(0)
  })
})
