/** Tests the guards that keep a move from leaving an account at home in two cells (src/cells/moveState.ts). */
import { Context, Effect, Exit, Layer, Redacted } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { describe, expect, it } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { Cell } from "../../src/base/cell.ts"
import { moveAccount, type Route, type Step } from "../../src/cells/moveAccount.ts"
import { updateProxies } from "../../src/cells/proxy.ts"
import { poolLayer } from "../../src/db/database.ts"
import { LOCKS } from "../../src/postgres/advisoryLocks.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import { createApi } from "../support/api.ts"
import { CELLS, useCells } from "../support/cells.ts"
import { useReceiver } from "../support/receiver.ts"
import { createCustomer, data, eventually } from "../support/story.ts"

const { databases, origins, url, createMerchant, move } = useCells(async () => ({ ALLOW_LOOPBACK_WEBHOOKS: "true" }))
const receiver = useReceiver()

const client = (of: string) =>
  Effect.map(Layer.build(poolLayer(Redacted.make(of), 3, { statement_timeout: "0" })), (context) =>
    Context.get(context, SqlClient.SqlClient),
  )

const lost = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ cause: new Error("gone"), message: "gone", operation: "query" }),
})

/** A database that loses the answer to the commit that opens an account there. */
const losing = (sql: SqlClient.SqlClient, account: string): SqlClient.SqlClient =>
  new Proxy(sql, {
    get: (target, name) =>
      name !== "withTransaction"
        ? Reflect.get(target, name)
        : <R, E, A>(work: Effect.Effect<A, E, R>) =>
            Effect.gen(function* () {
              const done = yield* sql.withTransaction(work)
              const opened = yield* sql`SELECT 1 FROM account_move WHERE account_id = ${account} AND state = 'opened'`
              return opened.length > 0 ? yield* Effect.fail(lost) : done
            }),
  })

const stateOf = (side: 0 | 1, account: string) =>
  databases[side].run((sql) =>
    Effect.map(
      sql<{ state: string }>`SELECT state FROM account_move WHERE account_id = ${account}`,
      ([row]) => row?.state,
    ),
  )

/** Moves an account from the first cell in this process. */
const moving = (
  account: string,
  {
    target = (sql) => sql,
    route = () => Effect.void,
    at = async () => {},
  }: {
    readonly target?: (sql: SqlClient.SqlClient) => SqlClient.SqlClient
    readonly route?: Route
    /** Runs at each step, before the step continues. */
    readonly at?: (step: Step) => Promise<void>
  },
) =>
  Effect.gen(function* () {
    return yield* moveAccount({
      account,
      source: yield* client(url(0)),
      target: target(yield* client(url(1))),
      from: Redacted.make(url(0)),
      replayables: [],
      route,
      progress: (step) => Effect.promise(() => at(step)),
    })
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.merge(Vault.layer(KEYS), Layer.succeed(Cell, CELLS[0]))),
    Effect.exit,
    Effect.runPromise,
  )

describe("an account", () => {
  it("stays closed at its source while it is unknown whether it has opened at the target", async () => {
    const { account, keys } = await createMerchant("Nobody knows")
    const here = createApi(origins[0]!, keys.sk_test)
    const there = createApi(origins[1]!, keys.sk_test)
    const moved = await moving(account.id, { target: (sql) => losing(sql, account.id) })
    expect(Exit.isFailure(moved)).toBe(true)
    expect([await stateOf(0, account.id), await stateOf(1, account.id)]).toEqual(["fenced", "opened"])
    expect((await here.post("/customers", { name: "Ada" })).body.error.code).toBe("account_moving")
    data(await there.post("/customers", { name: "Ada" }), 201)
    expect((await move(account.id, 0)).errors).toBe("")
    expect((await there.all("/customers")).length).toBe(1)
  })

  it("leaves for another cell only after its arrival is final", async () => {
    const { account } = await createMerchant("To and fro")
    for (const [step, arrived] of [
      ["proving", "arriving"],
      ["opened", "opened"],
    ] as const) {
      expect((await move(account.id, 0, step)).code).toBe(null)
      expect(await stateOf(1, account.id)).toBe(arrived)
      const back = await move(account.id, 1)
      expect([back.code, back.errors]).toEqual([1, expect.stringContaining("is on its way to this cell")])
      expect(await stateOf(1, account.id)).toBe(arrived)
    }
    expect((await move(account.id, 0)).errors).toBe("")
    expect((await move(account.id, 1)).errors).toBe("")
  })

  it("stays where it is while one of the proxies cannot be notified", async () => {
    const { account, keys } = await createMerchant("No proxy")
    const moved = await moving(account.id, { route: (entries) => updateProxies(["127.0.0.1:1"], entries) })
    expect(String(moved)).toContain("--proxy: 127.0.0.1:1 cannot be used")
    expect([await stateOf(0, account.id), await stateOf(1, account.id)]).toEqual([undefined, undefined])
    data(await createApi(origins[0]!, keys.sk_test).post("/customers", { name: "Ada" }), 201)
  })

  it("is copied from its cell's new address, if that has changed since its move started", async () => {
    const { account } = await createMerchant("New address")
    expect((await move(account.id, 0, "proving")).code).toBe(null)
    await databases[1].run((sql) =>
      Effect.gen(function* () {
        const [row] = yield* sql<{ name: string }>`
          SELECT subname::text AS name FROM pg_subscription WHERE subname = (SELECT move_id FROM account_move WHERE account_id = ${account.id})`
        const former = url(0).replace(/:\d+\//, ":1/")
        yield* sql.unsafe(`ALTER SUBSCRIPTION ${row!.name} CONNECTION '${former}'`).unprepared
      }),
    )
    expect((await move(account.id, 0)).errors).toBe("")
    expect(await stateOf(1, account.id)).toBe(undefined)
  })

  it.each(["copying", "opened"] as const)(
    "is not changed by a mover that paused at %s, lost its lock, and resumes after others moved the account",
    async (asleepAt) => {
      const { account, keys } = await createMerchant(`Asleep at ${asleepAt}`)
      const here = createApi(origins[0]!, keys.sk_test)
      const there = createApi(origins[1]!, keys.sk_test)
      const made = [await createCustomer(here)]
      const others = async () => {
        await databases[0].run(
          (sql) => sql`
            SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCKS.mover}
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
        )
        expect(await eventually(async () => ((await move(account.id, 0)).code === 0 ? true : undefined))).toBe(true)
        made.push(await createCustomer(there))
        if (asleepAt === "opened") expect((await move(account.id, 1)).errors).toBe("")
      }
      const slept = await moving(account.id, { at: async (step) => (step === asleepAt ? others() : undefined) })
      expect(String(slept)).toContain("Another process has changed the move")
      const lives = asleepAt === "opened" ? here : there
      expect((await lives.all("/customers")).map(({ id }) => id).sort()).toEqual(made.sort())
      expect([await stateOf(0, account.id), await stateOf(1, account.id)]).toEqual([undefined, undefined])
    },
  )

  it("that is fenced for long does not delay other accounts' webhooks", async () => {
    const [mine, other] = [await createMerchant("Fenced"), await createMerchant("Free")]
    const asked = Promise.withResolvers<() => void>()
    receiver.answer("/fenced", (_, response) => asked.resolve(() => void response.writeHead(200).end()))
    const apiOf = ({ keys }: typeof mine) => createApi(origins[0]!, keys.sk_test)
    const trigger = async (of: typeof mine) =>
      data(await apiOf(of).post("/test/events/trigger", { type: "made.up" }), 201).id as string
    for (const [of, path] of [
      [mine, "/fenced"],
      [other, "/free"],
    ] as const)
      data(await apiOf(of).post("/webhook-endpoints", { url: receiver.url(path), enabled_events: ["*"] }), 201)
    const event = await trigger(mine)
    const answer = await asked.promise
    expect((await move(mine.account.id, 0, "fenced")).code).toBe(null)
    answer()
    await trigger(other)
    await eventually(async () => (receiver.at("/free").length > 0 ? true : undefined))
    receiver.answer("/fenced", (_, response) => void response.writeHead(200).end())
    expect((await move(mine.account.id, 0)).errors).toBe("")
    // The source could not write the result. The delivery is sent again, and the event shows the account's new home.
    const there = createApi(origins[1]!, mine.keys.sk_test)
    await eventually(async () => {
      const [delivery] = data(await there.get(`/events/${event}/deliveries`))
      return delivery.status === "succeeded" ? true : undefined
    })
    expect(receiver.at("/fenced").map((one) => one.event.id)).toEqual([event, event])
  })

  it("that moves during a request gets the result of the request (N4), not a request to retry", async () => {
    const { account, keys } = await createMerchant("Under way")
    const api = createApi(origins[0]!, keys.sk_test)
    const asked = Promise.withResolvers<() => void>()
    receiver.answer("/late", (_, response) => asked.resolve(() => void response.writeHead(200).end()))
    const endpoint = data(
      await api.post("/webhook-endpoints", { url: receiver.url("/late"), enabled_events: ["made.up"] }),
      201,
    )
    const testing = api.post(`/webhook-endpoints/${endpoint.id}/test`, {})
    const answer = await asked.promise
    expect((await move(account.id, 0)).errors).toBe("")
    answer()
    expect(data(await testing)).toMatchObject({ delivered: true, response_status: 200 })
  })

  it("moves at the same time as three others", async () => {
    const merchants = await Promise.all(["A", "B", "C", "D"].map((name) => createMerchant(`Beside ${name}`)))
    const moved = await Promise.all(merchants.map(({ account }) => move(account.id, 0)))
    expect(moved.map(({ code, errors }) => [code, errors])).toEqual(merchants.map(() => [0, ""]))
  })
})
