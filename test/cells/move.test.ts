/** Tests two cells on one machine, and an account that moves between them (decisions O; docs/scaling.md). */
import { setTimeout as sleep } from "node:timers/promises"
import { describe, expect, it } from "vitest"
import { STEPS } from "../../src/cells/moveAccount.ts"
import { type Answer, type Api, createApi } from "../support/api.ts"
import { type Merchant, otherSide, type Side, useCells } from "../support/cells.ts"
import { data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const { databases, origins, createMerchant, move } = useCells()

/** A model of the proxy: remembers the account's last cell, and tries the other one if that does not know the key. */
const routed = (key: string) => {
  const apis = origins.map((origin) => createApi(origin, key)) as [Api, Api]
  let side: Side = 0
  const refused = { moving: 0 }
  const send = async (body: object, path: string, headers: Readonly<Record<string, string>>): Promise<Answer> => {
    for (;;) {
      const answer = await apis[side].post(path, body, headers)
      const code = answer.body.error?.code
      if (code === "key_invalid") side = otherSide(side)
      else if (code === "account_moving") {
        refused.moving++
        expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, expect.stringMatching(/^\d+$/)])
        await sleep(5)
      } else if (code === "idempotency_request_in_progress") await sleep(100)
      else return answer
    }
  }
  return { send, refused, at: () => apis[side] }
}

/** Creates customers and charges, each with its own idempotency key, until stopped. Returns the responses. */
const load = (merchant: Merchant) => {
  const caller = routed(merchant.keys.sk_test)
  let going = true
  const writer = async (name: string) => {
    const made: Array<{ customer: string; charge: string }> = []
    for (let n = 0; going; n++) {
      const key = { "idempotency-key": `${name}-${n}` }
      const customer = data(
        await caller.send({ name: `${name} ${n}`, email: `${name}${n}@example.com` }, "/customers", key),
        201,
      ).id
      const charge = {
        customer,
        amount: 50_000,
        currency: "NGN",
        description: "One",
        payment_method: "pm_test_success",
      }
      const paid = data(await caller.send(charge, "/charges", { "idempotency-key": `${name}-${n}-paid` }), 201)
      made.push({ customer, charge: paid.id })
    }
    return made
  }
  const writers = ["a", "b", "c"].map(writer)
  return {
    refused: caller.refused,
    at: caller.at,
    stop: async () => {
      going = false
      return (await Promise.all(writers)).flat()
    },
  }
}

describe("an account", () => {
  it("moves back and forth under load while its mover is killed: no write is lost or done twice", {
    timeout: 300_000,
  }, async () => {
    const merchant = await createMerchant("Moves")
    const { id } = merchant.account
    const running = load(merchant)
    await sleep(200)
    for (const step of STEPS) {
      const killed = await move(id, 0, step)
      expect([step, killed.code, killed.errors]).toEqual([step, null, ""])
      await sleep(50)
    }
    const finished = await move(id, 0)
    expect([finished.code, finished.errors]).toEqual([0, ""])
    expect(JSON.parse(finished.output).rows).toBeGreaterThan(10)
    expect((await move(id, 0)).errors).toContain("No such account")
    await sleep(200)
    const back = await move(id, 1)
    expect([back.code, back.errors]).toEqual([0, ""])
    await sleep(200)
    const made = await running.stop()
    expect(running.refused.moving).toBeGreaterThan(0)

    const all = await running.at().all("/customers")
    expect(all.map((one) => one.id).sort()).toEqual(made.map(({ customer }) => customer).sort())
    // A request that the move cut short returns the current state (decision N4). The charge settles soon after.
    const charges = await eventually(async () => {
      const all = await running.at().all("/charges")
      return all.every(({ status }) => status !== "pending") ? all : undefined
    })
    expect(charges.map((one) => one.id).sort()).toEqual(made.map(({ charge }) => charge).sort())
    expect(new Set(charges.map(({ status }) => status))).toEqual(new Set(["succeeded"]))
    await expectWhole(databases[0])
    await expectWhole(databases[1])

    const [kept] = await databases[1].run(
      (sql) => sql<{ customers: number }>`
        SELECT count(*) AS customers FROM account_kept WHERE account_id = ${id} AND table_name = 'customer'`,
    )
    expect(kept!.customers).toBeGreaterThan(0)
    for (const database of databases) {
      const left = await database.run(
        (sql) => sql<{ what: string }>`
          SELECT account_id AS what FROM account_move UNION ALL SELECT slot_name FROM pg_replication_slots WHERE database = current_database()
          UNION ALL SELECT pubname FROM pg_publication UNION ALL SELECT subname FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
          UNION ALL SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'account_moving' AND tgenabled <> 'D'`,
      )
      expect(left).toEqual([])
    }
  })
})
