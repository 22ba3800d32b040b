/** Tests the operator's commands for rails: verifying unsettled charges, new encryption keys (decisions P2, P14). */
import { randomBytes } from "node:crypto"
import { Redacted } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { ENCRYPTION_KEY } from "../../scripts/server.ts"
import { useOwnInstance } from "../support/instance.ts"
import { faults } from "../support/rails/fault.ts"
import { putOnRail, saveCard } from "../support/rails/merchant.ts"
import { startPaystack } from "../support/rails/paystack.ts"
import { runToEnd } from "../support/server.ts"
import { createCustomer, data } from "../support/story.ts"

const paystack = await startPaystack()
afterAll(() => paystack.close())
const settings = { PAYSTACK_URL: paystack.url }
const { database, live: api, accountId } = useOwnInstance(() => settings)
const merchant = [...paystack.merchants.values()][0]!

beforeAll(() => putOnRail(database, accountId(), "paystack", merchant))

const cli = async (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) => {
  const { code, output, errors } = await runToEnd("src/cli.ts", [...args, "--json"], {
    DATABASE_URL: Redacted.value(database.url()),
    ...settings,
    ...env,
  })
  return { code, errors, shown: code === 0 ? JSON.parse(output) : undefined }
}

const buyer = async () => {
  const customer = await createCustomer(api, { email: "ada@example.com" })
  const payment_method = await saveCard(database, accountId(), "paystack", merchant, customer, "ada@example.com")
  return { customer, payment_method }
}

const charge = async (amount = 10_000) =>
  data(await api.post("/charges", { ...(await buyer()), amount, currency: "NGN" }), 201)

describe("cli rail sync", () => {
  it("verifies every unsettled charge now, and reports the result", async () => {
    paystack.plan("charge", "next", faults.silenceAfter())
    const taken = await charge()
    paystack.plan("charge", "next", faults.wrongAmount(4_000))
    const short = await charge()
    paystack.plan("charge", "next", faults.pendingUntil(9, "ongoing"))
    const slow = await charge()
    expect([taken.status, short.status, slow.status]).toEqual(["pending", "pending", "pending"])
    expect((await cli(["rail", "sync", "--since", "2999-01-01"])).shown).toEqual({
      asked: 0,
      settled: 0,
      pending: 0,
      exceptions: 0,
    })
    const { shown } = await cli(["rail", "sync", "--account", accountId()])
    expect(shown).toEqual({ asked: 3, settled: 1, pending: 2, exceptions: 1 })
    expect(data(await api.get(`/charges/${taken.id}`)).status).toBe("succeeded")
    expect(paystack.books.get(taken.id).taken).toEqual([10_000])
    const { shown: checked } = await cli(["ledger", "check"])
    const attention = { kind: "amount_differs", expected_amount: 10_000, received_amount: 4_000, currency: "NGN" }
    expect(checked).toMatchObject({
      ok: true,
      attention: [{ account: accountId(), charge: short.id, rail: "paystack", ...attention }],
    })
  })

  it("refuses unknown arguments", async () => {
    expect((await cli(["rail", "sync", "--account", "acct_none"])).code).toBe(1)
    const { code, errors } = await cli(["rail", "sync", "--since", "yesterday"])
    expect(code).toBe(2)
    expect(errors).toContain("2026-01-31")
  })
})

describe("cli rail rotate", () => {
  it("reseals credentials and tokens, so that only the new key opens them", async () => {
    const { customer, payment_method } = await buyer()
    const next = randomBytes(32).toString("base64")
    const { shown } = await cli(["rail", "rotate"], { ENCRYPTION_KEY: `${next},${ENCRYPTION_KEY}` })
    expect(shown.rotated).toBeGreaterThan(1)
    expect((await cli(["rail", "rotate"], { ENCRYPTION_KEY: `${next},${ENCRYPTION_KEY}` })).shown).toEqual({
      rotated: 0,
    })
    const back = await cli(["rail", "rotate"], { ENCRYPTION_KEY: `${ENCRYPTION_KEY},${next}` })
    expect(back.shown).toEqual(shown)
    expect(
      data(await api.post("/charges", { customer, payment_method, amount: 9_900, currency: "NGN" }), 201),
    ).toMatchObject({
      status: "succeeded",
    })
  })
})
