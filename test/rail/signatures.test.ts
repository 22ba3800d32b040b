/** Tests rails' callbacks: authenticity, and the reference that they name (decisions P12, P13). */
import { createHmac } from "node:crypto"
import { Effect, Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { credentialsOf, KEYS, useRailServer } from "../support/railServer.ts"

const server = useRailServer()
const PAYSTACK_KEY = KEYS.paystack.secret_key!
const { secret_key: KEY = "", webhook_secret: HOOK = "" } = KEYS.flutterwave

describe("a callback of Paystack's", () => {
  const body = Buffer.from('{"event":"charge.success","data":{"reference":"chg-1"}}')
  const signature = createHmac("sha512", PAYSTACK_KEY).update(body).digest("hex")
  const isSigned = (headers: object, over: object = {}) =>
    server.resultOf("paystack", (rail) =>
      Effect.succeed(rail.isSigned({ headers: { ...headers }, body, ...over }, credentialsOf("paystack"))),
    )

  it("is signed once by the HMAC-SHA512 of its body with the secret key", async () => {
    expect(await isSigned({ "x-paystack-signature": signature })).toBe(true)
    expect(await isSigned({})).toBe(false)
    expect(await isSigned({ "x-paystack-signature": [signature] })).toBe(false)
    expect(await isSigned({ "x-paystack-signature": `${signature}, ${signature}` })).toBe(false)
    expect(await isSigned({ "x-paystack-signature": signature.slice(1) })).toBe(false)
    expect(await isSigned({ "x-paystack-signature": "" })).toBe(false)
    expect(await isSigned({ "x-paystack-signature": signature }, { body: Buffer.from("{}") })).toBe(false)
  })

  it("is never valid with a missing or empty key", async () => {
    const empty = { headers: { "x-paystack-signature": createHmac("sha512", "").update(body).digest("hex") }, body }
    const signed = await server.resultOf("paystack", (rail) =>
      Effect.succeed([rail.isSigned(empty, {}), rail.isSigned(empty, { secret_key: Redacted.make("") })]),
    )
    expect(signed).toEqual([false, false])
  })

  it.each([
    [{ event: "charge.success", data: { reference: "chg-01" } }, "chg_01"],
    [{ event: "charge.success", data: { reference: "T123" } }, "T123"],
    [{ event: "refund.processed", data: { transaction_reference: "chg-01", reference: "x" } }, "chg_01"],
    [{ event: "refund.failed", data: { transaction: { reference: "chg-01" } } }, "chg_01"],
    [{ event: "refund.failed", data: { reference: "chg-01" } }, "chg_01"],
    [{ data: { reference: "chg-01" } }, "chg_01"],
    [{ event: "charge.success", data: { reference: 5 } }, undefined],
    [{ event: "charge.success", data: { reference: "x".repeat(201) } }, undefined],
    [{ event: "charge.success", data: { reference: "a\u0000b" } }, undefined],
    [{ event: "charge.success", data: null }, undefined],
    [{ event: "charge.success" }, undefined],
    [[], undefined],
    [null, undefined],
  ])("about a reference: %j", async (event, reference) => {
    const of = (text: string) =>
      server.resultOf("paystack", (rail) => Effect.succeed(rail.announcementIn(Buffer.from(text))))
    expect((await of(JSON.stringify(event)))?.reference).toBe(reference)
    expect(await of(`${JSON.stringify(event)}}`)).toBeUndefined()
  })

  it.each([
    ["charge.success", { status: "success" }, false],
    ["charge.failed", { status: "failed" }, true],
    ["charge.success", { status: "reversed" }, true],
    ["charge.success", {}, false],
    ["charge.failed", { status: 5 }, false],
    ["refund.pending", { status: "pending" }, false],
    ["refund.failed", { status: "failed" }, false],
    ["refund.processed", { status: "processed" }, true],
  ])("%s with %j denies a payment: %s", async (event, data, denies) => {
    const body = Buffer.from(JSON.stringify({ event, data: { reference: "chg-01", ...data } }))
    expect(await server.resultOf("paystack", (rail) => Effect.succeed(rail.announcementIn(body)))).toEqual({
      reference: "chg_01",
      denies,
    })
  })
})

describe("a callback of Flutterwave's", () => {
  const body = Buffer.from('{"event":"charge.completed","data":{"tx_ref":"chg_1"}}')
  const signature = createHmac("sha256", HOOK).update(body).digest("base64")
  const isSigned = (headers: object, with_ = credentialsOf("flutterwave")) =>
    server.resultOf("flutterwave", (rail) => Effect.succeed(rail.isSigned({ headers: { ...headers }, body }, with_)))

  it.each([
    [{ "flutterwave-signature": signature }, true],
    [{ "verif-hash": HOOK }, true],
    [{ "flutterwave-signature": signature, "verif-hash": HOOK }, true],
    [{}, false],
    [{ "flutterwave-signature": HOOK }, false],
    [{ "flutterwave-signature": "" }, false],
    [{ "flutterwave-signature": createHmac("sha256", KEY).update(body).digest("base64") }, false],
    [{ "verif-hash": `${HOOK} ` }, false],
    [{ "verif-hash": "" }, false],
    [{ "verif-hash": [HOOK] }, false],
    [{ "verif-hash": HOOK, "flutterwave-signature": [signature] }, false],
  ])("with %j is signed: %s", async (headers, signed) => {
    expect(await isSigned(headers)).toBe(signed)
  })

  it("is never valid with a missing or empty secret", async () => {
    const headers = {
      "verif-hash": "",
      "flutterwave-signature": createHmac("sha256", "").update(body).digest("base64"),
    }
    expect(await isSigned(headers, {})).toBe(false)
    expect(await isSigned(headers, { webhook_secret: Redacted.make("") })).toBe(false)
  })

  it.each([
    [{ event: "charge.completed", data: { tx_ref: "chg_01" } }, "chg_01"],
    [{ event: "charge.completed", data: { txRef: "chg_01" } }, "chg_01"],
    [{ txRef: "chg_01", flwRef: "x" }, "chg_01"],
    [{ data: { tx_ref: 5 } }, undefined],
    [{ data: { tx_ref: "x".repeat(201) } }, undefined],
    [{ data: { tx_ref: "a\u0000b" } }, undefined],
    [{ data: null }, undefined],
    [[], undefined],
    [null, undefined],
    ["chg_01", undefined],
  ])("about a reference: %j", async (event, reference) => {
    const of = (text: string) =>
      server.resultOf("flutterwave", (rail) => Effect.succeed(rail.announcementIn(Buffer.from(text))))
    expect((await of(JSON.stringify(event)))?.reference).toBe(reference)
    expect(await of(`${JSON.stringify(event)}}`)).toBeUndefined()
  })

  it.each([
    [{ event: "charge.completed", data: { tx_ref: "chg_01", status: "successful" } }, false],
    [{ event: "charge.completed", data: { tx_ref: "chg_01", status: "failed" } }, true],
    [{ event: "charge.completed", data: { tx_ref: "chg_01" } }, false],
    [{ txRef: "chg_01", status: "successful" }, false],
    [{ txRef: "chg_01", status: "failed" }, true],
  ])("%j denies a payment: %s", async (event, denies) => {
    const body = Buffer.from(JSON.stringify(event))
    expect(await server.resultOf("flutterwave", (rail) => Effect.succeed(rail.announcementIn(body)))).toEqual({
      reference: "chg_01",
      denies,
    })
  })
})
