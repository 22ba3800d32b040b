/** What keeps a move from leaving an account at home in two cells (src/cells/standing.ts). */
import { Context, Effect, Exit, Layer, Redacted } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { describe, expect, it } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { Cell } from "../../src/cell.ts"
import { moveAccount, type Route } from "../../src/cells/moveAccount.ts"
import { tellProxies } from "../../src/cells/proxy.ts"
import { poolLayer } from "../../src/db/database.ts"
import { Vault } from "../../src/secret/Vault.ts"
import { createApi } from "../support/api.ts"
import { CELLS, useCells } from "../support/cells.ts"
import { data } from "../support/story.ts"

const { databases, origins, url, createMerchant, move } = useCells()

const client = (of: string) =>
  Effect.map(Layer.build(poolLayer(Redacted.make(of), 3, { statement_timeout: "0" })), (context) =>
    Context.get(context, SqlClient.SqlClient),
  )

const lost = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ cause: new Error("gone"), message: "gone", operation: "query" }),
})

/** A database whose answer to the commit that opens an account there is lost. */
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
  }: { readonly target?: (sql: SqlClient.SqlClient) => SqlClient.SqlClient; readonly route?: Route },
) =>
  Effect.gen(function* () {
    return yield* moveAccount({
      account,
      source: yield* client(url(0)),
      target: target(yield* client(url(1))),
      from: Redacted.make(url(0)),
      replayables: [],
      route,
      progress: () => Effect.void,
    })
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.merge(Vault.layer(KEYS), Layer.succeed(Cell, CELLS[0]))),
    Effect.exit,
    Effect.runPromise,
  )

describe("an account", () => {
  it("stays closed at its source where nobody knows whether it has opened at the target", async () => {
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

  it("sets out for another cell only once it has arrived for good", async () => {
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

  it("stays where it is while a proxy that callers come by cannot be told", async () => {
    const { account, keys } = await createMerchant("No proxy")
    const moved = await moving(account.id, { route: (entries) => tellProxies(["127.0.0.1:1"], entries) })
    expect(String(moved)).toContain("--proxy: 127.0.0.1:1 cannot be used")
    expect([await stateOf(0, account.id), await stateOf(1, account.id)]).toEqual([undefined, undefined])
    data(await createApi(origins[0]!, keys.sk_test).post("/customers", { name: "Ada" }), 201)
  })

  it("is copied from its cell's new address, where that has changed since its move began", async () => {
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
})
