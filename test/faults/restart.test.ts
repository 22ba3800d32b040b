/** Restarts Postgres under a server repeatedly, while it gets requests. */
import { execFile } from "node:child_process"
import { readFileSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { expect, it } from "vitest"
import { onDatabase, poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { startPostgres, TEMPLATE } from "../support/postgres.ts"
import { startServer } from "../support/server.ts"
import { data, eventually } from "../support/story.ts"

/** The duration of each outage. */
const AWAY_MS = [0, 200, 400, 600, 1_000, 1_300]
const ASKING = 8

/** Stops the database server of this cluster and starts it again on the same port. */
const restart = async (cluster: string, awayMs: number) => {
  const { uid, gid } = statSync(cluster)
  const control = join(dirname(readFileSync(join(cluster, "postmaster.opts"), "utf8").split(" ")[0]!), "pg_ctl")
  const options = readFileSync(join(cluster, "postmaster.opts"), "utf8").trim().split(" ").slice(3).join(" ")
  const run = (...args: ReadonlyArray<string>) =>
    promisify(execFile)(control, [...args, "-D", cluster, "-w"], { uid, gid, cwd: "/", env: { LC_ALL: "C" } })
  await run("stop", "-m", "fast")
  // The fault itself, so the test waits for nothing.
  await new Promise((resolve) => setTimeout(resolve, awayMs))
  await run("start", "-s", "-l", join(cluster, "server.log"), "-o", options)
}

it("continues after each restart, and all confirmed writes exist", async () => {
  const { url, end } = await startPostgres()
  try {
    const own = onDatabase(url, TEMPLATE)
    const run = <A, E>(work: Effect.Effect<A, E, SqlClient.SqlClient>) =>
      Effect.runPromise(Effect.provide(work, poolLayer(own, 1)))
    const { keys } = await run(createAccount({ businessName: "Fit Lagos" }))
    const [setting] = await run(
      Effect.flatMap(SqlClient.SqlClient, (sql) => sql<{ data_directory: string }>`SHOW data_directory`.unprepared),
    )
    const server = await startServer(own)
    const api = createApi(server.origin, keys.sk_test)
    let asking = true
    const made: Array<string> = []
    const askers = Array.from({ length: ASKING }, async () => {
      while (asking) {
        const answer = await api.post("/customers", { name: "Ada Obi" }).catch(() => undefined)
        if (answer?.status === 201) made.push(answer.body.data.id)
      }
    })
    for (const awayMs of AWAY_MS) {
      await restart(setting!.data_directory, awayMs)
      const before = made.length
      await eventually(async () => ((await fetch(`${server.origin}/readyz`)).status === 200 ? true : undefined), 60_000)
      await eventually(async () => (made.length > before ? true : undefined), 60_000)
    }
    asking = false
    await Promise.all(askers)
    const kept = (await api.all("/customers")).map(({ id }) => id)
    expect(kept).toEqual(expect.arrayContaining(made))
    data(await api.get(`/customers/${made.at(-1)}`))
    expect(await server.stop()).toBe(0)
  } finally {
    end()
  }
})
