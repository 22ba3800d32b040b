/** Tests that with any answer of a rail, only a stated success counts as paid. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { OUTSIDE_RAILS, type OutsideRail } from "../../src/rails/rail/Rail.ts"
import { KEYS, saying, useRailServer } from "../support/railServer.ts"
import { CALLS, charge } from "./calls.ts"

const server = useRailServer()

describe("any answer of a rail", () => {
  const says = {
    paystack: (value: unknown) => JSON.stringify(value).includes('"success"'),
    flutterwave: (value: unknown) => JSON.stringify(value).includes('"successful"'),
  }
  /** JSON similar to the rails': their fields, with values of any kind. */
  const words = [
    "status",
    "data",
    "message",
    "amount",
    "requested_amount",
    "currency",
    "reference",
    "tx_ref",
    "id",
    "authorization",
    "customer",
    "card",
    "meta",
    "paused",
    "retry_by",
    "code",
    "type",
    "gateway_response",
    "processor_response",
  ] as const
  const leaf = fc.oneof(
    fc.constantFrom(
      true,
      false,
      null,
      "success",
      "successful",
      "failed",
      "pending",
      "error",
      "NGN",
      "chg-1",
      100,
      "100",
      1e300,
    ),
    fc.string(),
    fc.double(),
    fc.integer(),
  )
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4 },
      leaf,
      fc.array(tie("tree"), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...words), tie("tree"), { maxKeys: 8 }),
    ),
  }))
  const status = fc.constantFrom(200, 201, 400, 401, 404, 422)

  it("crashes nothing, and succeeds only if it says so", async () => {
    const dies = fc.asyncProperty(
      fc.constantFrom<OutsideRail>(...OUTSIDE_RAILS),
      fc.oneof(tree, fc.jsonValue()),
      status,
      async (name, value, code) => {
        server.answer(saying(code, JSON.stringify(value)))
        for (const call of Object.values(CALLS)) {
          const result = await server.resultOf<object>(name, (rail) => call(rail))
          expect(result).toHaveProperty("kind")
          if ("status" in result && result.status === "succeeded") expect(says[name](value)).toBe(true)
          expect(JSON.stringify(result)).not.toContain(KEYS[name].secret_key)
        }
      },
    )
    await fc.assert(dies, { numRuns: 150 })
  })

  it("with one wrong field is no success, one without a valid amount, or the same payment", async () => {
    const right = {
      paystack: {
        id: 1,
        status: "success",
        reference: "chg-1",
        amount: 100,
        currency: "NGN",
        gateway_response: "Approved",
        authorization: { authorization_code: "AUTH_1", reusable: true },
        customer: { email: "a@b.example" },
      },
      flutterwave: {
        id: 1,
        status: "successful",
        tx_ref: "chg_1",
        amount: 1,
        currency: "NGN",
        processor_response: "Approved",
        card: { token: "flw-t1" },
        customer: { email: "a@b.example" },
      },
    }
    const deciding = new Set(["status", "reference", "tx_ref", "amount", "currency"])
    const field = fc.constantFrom(
      "id",
      "gateway_response",
      "authorization",
      "customer",
      "processor_response",
      "card",
      ...deciding,
    )
    const wrong = fc.oneof(fc.constantFrom(null, true, {}, [], -1, 0.001), fc.constant("\u0000"))
    let [kept, lost] = [0, 0]
    const holds = fc.asyncProperty(
      fc.constantFrom<OutsideRail>(...OUTSIDE_RAILS),
      field,
      wrong,
      async (name, key, value) => {
        if (!(key in right[name])) return
        const envelope = { status: name === "paystack" ? true : "success", data: { ...right[name], [key]: value } }
        server.answer(saying(200, envelope))
        const result = await server.resultOf(name, charge)
        // A missing currency is the requested one.
        const isUnsaid = key === "currency" && value === null
        if (deciding.has(key) && !isUnsaid) {
          lost += 1
          // An invalid amount is a different amount (decision P10).
          expect(result).toMatchObject(
            key === "amount"
              ? { kind: "transaction", status: "succeeded", reference: "chg_1", amountKobo: "unreadable" }
              : { kind: "unclear", reached: true },
          )
        } else {
          kept += 1
          expect(result).toMatchObject({
            kind: "transaction",
            status: "succeeded",
            reference: "chg_1",
            amountKobo: 100,
          })
        }
      },
    )
    await fc.assert(holds, { numRuns: 500 })
    expect(kept).toBeGreaterThan(0)
    expect(lost).toBeGreaterThan(0)
  })
})
