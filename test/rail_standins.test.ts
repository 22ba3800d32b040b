/** Tests the stand-ins for Paystack and Flutterwave: their answers match their books. */
import { createHmac } from "node:crypto"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { afterEach, expect, test } from "vitest"
import { post } from "./support/rails/callbacks.ts"
import { faults } from "./support/rails/fault.ts"
import { startFlutterwave } from "./support/rails/flutterwave.ts"
import { startPaystack } from "./support/rails/paystack.ts"
import type { StandIn } from "./support/rails/standIn.ts"

const EMAIL = "ada@example.com"
const RETURN_URL = "https://shop.example/return?session=1"
const started: Array<() => Promise<unknown>> = []
afterEach(() => Promise.all(started.splice(0).map((stop) => stop())))

const paystack = async (options: Parameters<typeof startPaystack>[0] = {}) => {
  const rail = await startPaystack(options)
  started.push(rail.close)
  return rail
}
const flutterwave = async (options: Parameters<typeof startFlutterwave>[0] = {}) => {
  const rail = await startFlutterwave(options)
  started.push(rail.close)
  return rail
}

// biome-ignore lint/suspicious/noExplicitAny: what a rail answers is read as it comes.
type Reply = { readonly status: number; readonly text: string; readonly body: any; readonly retryAfter: string | null }

const call = async (
  rail: StandIn,
  method: string,
  path: string,
  body?: object,
  key = rail.secretKey,
): Promise<Reply> => {
  const response = await fetch(rail.url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get("content-type")?.startsWith("application/json")
  let read: unknown
  try {
    read = isJson ? JSON.parse(text) : undefined
  } catch {
    read = undefined
  }
  return { status: response.status, text, body: read, retryAfter: response.headers.get("retry-after") }
}

/** The two rails behind one interface, with amounts in kobo. */
const RAILS = {
  paystack: {
    start: paystack,
    charge: (rail: StandIn, reference: string, token: string, kobo = 500_000, key?: string) =>
      call(
        rail,
        "POST",
        "/transaction/charge_authorization",
        { reference, email: EMAIL, amount: kobo, authorization_code: token, currency: "NGN" },
        key,
      ),
    open: (rail: StandIn, reference: string) =>
      call(rail, "POST", "/transaction/initialize", {
        reference,
        email: EMAIL,
        amount: 500_000,
        currency: "NGN",
        callback_url: RETURN_URL,
        metadata: JSON.stringify({ cancel_action: "https://shop.example/left" }),
      }),
    verify: (rail: StandIn, reference: string, key?: string) =>
      call(rail, "GET", `/transaction/verify/${reference}`, undefined, key),
    refund: (rail: StandIn, reference: string) => call(rail, "POST", "/refund", { transaction: reference }),
    refundStatus: (rail: StandIn, reference: string) =>
      call(rail, "GET", `/refund/${rail.books.get(reference).refunds.at(-1)!.id}`),
    words: { succeeded: "success", failed: "failed", pending: "pending", returned: "processed" },
    pageOf: (reply: Reply): string => reply.body.data.authorization_url,
    tokenOf: (reply: Reply): string | undefined => reply.body.data.authorization.authorization_code,
    koboOf: (reply: Reply): number => reply.body.data.amount,
    referenceOf: (reply: Reply): string | undefined => reply.body?.data?.reference,
    unknown: 404,
  },
  flutterwave: {
    start: flutterwave,
    charge: (rail: StandIn, reference: string, token: string, kobo = 500_000, key?: string) =>
      call(
        rail,
        "POST",
        "/v3/tokenized-charges",
        { tx_ref: reference, email: EMAIL, amount: kobo / 100, token, currency: "NGN", country: "NG" },
        key,
      ),
    open: (rail: StandIn, reference: string) =>
      call(rail, "POST", "/v3/payments", {
        tx_ref: reference,
        amount: 5_000,
        currency: "NGN",
        redirect_url: RETURN_URL,
        customer: { email: EMAIL },
      }),
    verify: (rail: StandIn, reference: string, key?: string) =>
      call(rail, "GET", `/v3/transactions/verify_by_reference?tx_ref=${reference}`, undefined, key),
    refund: (rail: StandIn, reference: string) =>
      call(rail, "POST", `/v3/transactions/${rail.books.get(reference).number}/refund`, {}),
    refundStatus: (rail: StandIn, reference: string) =>
      call(rail, "GET", `/v3/refunds/${rail.books.get(reference).refunds.at(-1)!.id}`),
    words: { succeeded: "successful", failed: "failed", pending: "pending", returned: "completed" },
    pageOf: (reply: Reply): string => reply.body.data.link,
    tokenOf: (reply: Reply): string | undefined => reply.body.data.card?.token,
    koboOf: (reply: Reply): number => Math.round(reply.body.data.amount * 100),
    referenceOf: (reply: Reply): string | undefined => reply.body?.data?.tx_ref,
    unknown: 400,
  },
} as const

type Rail = (typeof RAILS)["paystack"] | (typeof RAILS)["flutterwave"]
const BOTH: ReadonlyArray<readonly [string, Rail]> = [
  ["paystack", RAILS.paystack],
  ["flutterwave", RAILS.flutterwave],
]

/** A merchant's server: records requests, and answers 200, or 503 while it is down. */
const merchantServer = async () => {
  const received: Array<{ readonly headers: Record<string, unknown>; readonly text: string }> = []
  const shop = { received, url: "", isDown: false, during: async () => {} }
  const server = createServer(async (request, response) => {
    let text = ""
    for await (const part of request.setEncoding("utf8")) text += part
    received.push({ headers: request.headers, text })
    await shop.during()
    response.writeHead(shop.isDown ? 503 : 200).end()
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  started.push(async () => {
    server.closeAllConnections()
    server.close()
  })
  shop.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return shop
}

test.each(BOTH)("%s: a charge of a token takes the money once, and verifying returns the same", async (_, of) => {
  const rail = await of.start()
  const { token } = rail.books.issueToken(EMAIL)
  const charged = await of.charge(rail, "chg-1", token, 123_456)
  expect(charged.status).toBe(200)
  expect(charged.body.data.status).toBe(of.words.succeeded)
  const verified = await of.verify(rail, "chg-1")
  expect(verified.body.data.status).toBe(of.words.succeeded)
  expect(of.koboOf(verified)).toBe(123_456)
  expect(of.tokenOf(verified)).toBe(token)
  expect(rail.books.get("chg-1")).toMatchObject({
    status: "succeeded",
    taken: [123_456],
    email: EMAIL,
    currency: "NGN",
  })
  expect(rail.books.totalTaken()).toBe(123_456)
})

test.each(BOTH)("%s: refuses invalid calls, without a trace in the books", async (_, of) => {
  const rail = await of.start()
  const { token } = rail.books.issueToken(EMAIL)
  const [other, spent, dead] = [
    rail.books.issueToken("someone@example.com"),
    rail.books.issueToken(EMAIL, { reusable: false }),
    rail.books.issueToken(EMAIL),
  ]
  dead.active = false
  expect((await of.charge(rail, "chg-1", token, 500_000, "sk_wrong")).status).toBe(401)
  expect((await of.charge(rail, "chg-1", "nothing like it")).status).toBe(400)
  for (const refused of [other, spent, dead]) expect((await of.charge(rail, "chg-1", refused.token)).status).toBe(400)
  expect((await of.charge(rail, "chg-1", token, 0)).status).toBe(400)
  expect((await of.charge(rail, "chg-1", token, 100.5)).status).toBe(400)
  expect((await of.verify(rail, "chg-1")).status).toBe(of.unknown)
  expect(rail.books.transactions.size).toBe(0)
  expect(rail.calls.unauthorized).toBe(1)
})

test.each(BOTH)("%s: a repeated reference is refused and takes nothing again", async (_, of) => {
  const rail = await of.start()
  const { token } = rail.books.issueToken(EMAIL)
  await of.charge(rail, "chg-1", token)
  const again = await of.charge(rail, "chg-1", token)
  expect(again.status).toBe(400)
  expect(again.text).toMatch(/duplicate/i)
  expect(rail.books.get("chg-1").taken).toEqual([500_000])
  expect(rail.calls.of("charge", "chg-1").map(({ attempt }) => attempt)).toEqual([1, 2])
})

test("paystack refuses an underscore in a reference, and its books can still be searched by our reference", async () => {
  const rail = await paystack()
  const { token } = rail.books.issueToken(EMAIL)
  expect((await RAILS.paystack.charge(rail, "chg_1", token)).status).toBe(400)
  await RAILS.paystack.charge(rail, "chg-1", token)
  expect(rail.books.get("chg_1").status).toBe("succeeded")
})

test("paystack's neighbouring numbers are equal when read as doubles", async () => {
  const rail = await paystack()
  const { token } = rail.books.issueToken(EMAIL)
  const texts = [await RAILS.paystack.charge(rail, "a", token), await RAILS.paystack.charge(rail, "b", token)]
  expect(texts.map(({ text }) => /"id":(\d+)/.exec(text)?.[1])).toEqual(["9007199254740993", "9007199254740994"])
  expect(texts.map(({ body }) => body.data.id)).toEqual([9007199254740992, 9007199254740994])
  await fetch(`${rail.url}/refund`, {
    method: "POST",
    headers: { authorization: `Bearer ${rail.secretKey}` },
    body: '{"transaction":9007199254740993}',
  })
  expect(rail.books.get("a").refunds).toHaveLength(1)
})

test.each(BOTH)("%s: a page is paid once and issues a token for its e-mail", async (_, of) => {
  const rail = await of.start()
  const opened = await of.open(rail, "chg-1")
  const page = of.pageOf(opened)
  expect(await (await fetch(page)).text()).toContain("Pay</button>")
  expect(rail.books.get("chg-1")).toMatchObject({ status: "open", taken: [] })
  const press = (act: string) => fetch(page, { method: "POST", body: new URLSearchParams({ act }), redirect: "manual" })
  const sent = await press("pay")
  expect(sent.status).toBe(303)
  const location = new URL(sent.headers.get("location")!)
  expect(location.searchParams.get("session")).toBe("1")
  expect(location.searchParams.get(of === RAILS.paystack ? "reference" : "tx_ref")).toBe("chg-1")
  await press("pay")
  expect(rail.books.get("chg-1").taken).toEqual([500_000])
  expect(await (await fetch(page)).text()).toContain("over")
  const token = of.tokenOf(await of.verify(rail, "chg-1"))!
  expect((await of.charge(rail, "chg-2", token)).body.data.status).toBe(of.words.succeeded)
})

test.each(BOTH)("%s: a page that the buyer left stays open, and a declined one can still be paid", async (_, of) => {
  const rail = await of.start()
  await of.open(rail, "chg-1")
  const left = await rail.payOnPage("chg-1", "leave")
  const asked = await of.verify(rail, "chg-1")
  if (of === RAILS.paystack) {
    expect(left).toBe("https://shop.example/left")
    expect(asked.body.data.status).toBe("abandoned")
  } else {
    expect(left).toBe("https://shop.example/return?session=1&status=cancelled&tx_ref=chg-1")
    expect(asked.status).toBe(400)
  }
  await rail.payOnPage("chg-1", "decline", { words: "Insufficient Funds" })
  expect((await of.verify(rail, "chg-1")).body.data.status).toBe("failed")
  await rail.payOnPage("chg-1", "pay", { reusable: false })
  expect(rail.books.get("chg-1")).toMatchObject({ status: "succeeded", taken: [500_000] })
  expect(rail.books.get("chg-1").token?.reusable).toBe(false)
})

test.each(BOTH)('%s: a "before" fault leaves no trace, an "after" fault takes the money', async (_, of) => {
  const rail = await of.start()
  const { token } = rail.books.issueToken(EMAIL)
  const before = [
    faults.silenceBefore(),
    faults.unavailableBefore(),
    faults.html500(),
    faults.html200(),
    faults.tooMany(7),
  ]
  rail.plan("charge", "chg-1", ...before, faults.tooMany(), faults.unauthorized())
  await expect(of.charge(rail, "chg-1", token)).rejects.toThrow()
  expect((await of.charge(rail, "chg-1", token)).status).toBe(503)
  expect((await of.charge(rail, "chg-1", token)).status).toBe(500)
  expect(await of.charge(rail, "chg-1", token)).toMatchObject({ status: 200, body: undefined })
  expect(await of.charge(rail, "chg-1", token)).toMatchObject({ status: 429, retryAfter: "7" })
  expect(await of.charge(rail, "chg-1", token)).toMatchObject({ status: 429, retryAfter: null })
  expect((await of.charge(rail, "chg-1", token)).status).toBe(401)
  expect(rail.books.find("chg-1")).toBeUndefined()

  const after = [faults.silenceAfter(), faults.cutBody(), faults.unavailableAfter(), faults.html500("after")]
  const unreadable = [faults.truncatedJson(), faults.wrongTypes(), faults.wrongReference()]
  for (const [index, fault] of [...after, ...unreadable].entries()) {
    const reference = `after-${index}`
    rail.plan("charge", reference, fault)
    const reply = await of.charge(rail, reference, token).catch(() => undefined)
    expect(reply && of.referenceOf(reply)).not.toBe(reference)
    expect(rail.books.get(reference).taken).toEqual([500_000])
  }
})

test.each(BOTH)("%s: a hanging call ends when its caller gives up, and is in progress until then", async (_, of) => {
  const rail = await of.start()
  rail.plan("verify", "next", faults.silenceBefore("hang"))
  const giveUp = new AbortController()
  const path = of === RAILS.paystack ? "/transaction/verify/x" : "/v3/transactions/verify_by_reference?tx_ref=x"
  const hanging = fetch(rail.url + path, {
    headers: { authorization: `Bearer ${rail.secretKey}` },
    signal: giveUp.signal,
  })
  await Promise.all([of.verify(rail, "y"), of.verify(rail, "z")])
  await expect.poll(() => rail.underWay(rail.secretKey)).toBe(1)
  giveUp.abort()
  await expect(hanging).rejects.toThrow()
  await expect.poll(() => rail.underWay()).toBe(0)
  expect(rail.calls.most()).toBeGreaterThanOrEqual(2)
})

test.each(BOTH)("%s: a pending charge moves no money until the n-th question, or until settled", async (_, of) => {
  const rail = await of.start()
  const { token } = rail.books.issueToken(EMAIL)
  const statusAfter = async (reference: string) => (await of.verify(rail, reference)).body.data.status
  rail.plan("charge", "later", faults.pendingUntil(2))
  rail.plan("charge", "running", faults.unavailableAfter(2))
  rail.plan("charge", "fails", faults.lateFailure(1, "Do Not Honour"))
  rail.plan("charge", "wakes", faults.lateSuccess(2, "Declined"))
  rail.plan("charge", "never", faults.pendingUntil(Number.POSITIVE_INFINITY))
  const references = ["later", "running", "fails", "wakes", "never"]
  const replies = await Promise.all(references.map((reference) => of.charge(rail, reference, token)))
  expect(replies.map(({ body }) => body.data?.status)).toEqual(["pending", undefined, "pending", "failed", "pending"])
  expect(rail.books.totalTaken()).toBe(0)
  for (const reference of ["later", "running"]) {
    expect(await statusAfter(reference)).toBe("pending")
    expect(await statusAfter(reference)).toBe(of.words.succeeded)
    expect(rail.books.get(reference).taken).toEqual([500_000])
  }
  expect(await statusAfter("fails")).toBe("failed")
  expect([await statusAfter("wakes"), await statusAfter("wakes")]).toEqual(["failed", of.words.succeeded])
  expect(rail.books.totalTaken()).toBe(1_500_000)
  expect(rail.settle("never")).toBe(true)
  expect(rail.settle("never")).toBe(false)
  expect(rail.books.totalTaken()).toBe(2_000_000)
})

test.each(BOTH)("%s: wrong amounts and currencies are the amounts taken", async (_, of) => {
  const rail = await of.start()
  const { token } = rail.books.issueToken(EMAIL)
  const planned = { low: faults.wrongAmount(400_000), high: faults.wrongAmount(600_000), twice: faults.twice() }
  for (const [reference, fault] of Object.entries(planned)) {
    rail.plan("charge", reference, fault)
    await of.charge(rail, reference, token)
  }
  const amounts = await Promise.all(Object.keys(planned).map((reference) => of.verify(rail, reference)))
  expect(amounts.map(of.koboOf)).toEqual([400_000, 600_000, 1_000_000])
  expect(rail.books.get("twice").taken).toEqual([500_000, 500_000])
  rail.plan("charge", "dollars", faults.wrongCurrency())
  expect((await of.charge(rail, "dollars", token)).body.data.currency).toBe("USD")
  expect([rail.books.totalTaken(), rail.books.totalTaken("USD")]).toEqual([2_000_000, 500_000])
})

test("paystack includes fees in amount, and returns the charge's own amount in requested_amount", async () => {
  const rail = await paystack()
  rail.plan("charge", "next", faults.feesOnTop(7_500))
  await RAILS.paystack.charge(rail, "chg-1", rail.books.issueToken(EMAIL).token)
  const { data } = (await RAILS.paystack.verify(rail, "chg-1")).body
  expect([data.amount, data.requested_amount]).toEqual([507_500, 500_000])
  expect(rail.books.totalTaken()).toBe(500_000)
})

test.each(BOTH)(
  "%s: declines, in data or as an error, and step-ups that the cardholder approves later",
  async (_, of) => {
    const rail = await of.start()
    const { token } = rail.books.issueToken(EMAIL)
    rail.plan("charge", "no", faults.decline("Insufficient Funds", { retryBy: "2026-03-01T00:00:00.000Z" }))
    const declined = await of.charge(rail, "no", token)
    expect(declined.body.data).toMatchObject({ status: "failed", retry_by: "2026-03-01T00:00:00.000Z" })
    expect(declined.text).toContain("Insufficient Funds")
    rail.plan("charge", "error", faults.decline("Expired card", { spoken: "error" }))
    expect(await of.charge(rail, "error", token)).toMatchObject({ status: 400, body: { message: "Expired card" } })
    expect((await of.verify(rail, "error")).body.data.status).toBe("failed")
    rail.plan("charge", "step", faults.stepUp())
    const { data } = (await of.charge(rail, "step", token)).body
    expect(data.paused ?? data.meta.authorization.mode).toBe(of === RAILS.paystack ? true : "redirect")
    expect(rail.books.totalTaken()).toBe(0)
    await rail.payOnPage("step", "pay")
    expect((await of.verify(rail, "step")).body.data.status).toBe(of.words.succeeded)
  },
)

test.each(BOTH)("%s: refunds", async (_, of) => {
  const rail = await of.start()
  const { token } = rail.books.issueToken(EMAIL)
  for (const reference of ["a", "b", "c", "d"]) await of.charge(rail, reference, token)
  expect((await of.refund(rail, "a")).status).toBe(200)
  expect((await of.refundStatus(rail, "a")).body.data.status).toBe(of.words.returned)
  expect((await of.refund(rail, "a")).status).toBe(400)
  rail.plan("refund", "b", faults.refundPendingUntil(2))
  expect((await of.refund(rail, "b")).body.data.status).toBe("pending")
  expect((await of.refundStatus(rail, "b")).body.data.status).toBe("pending")
  expect((await of.refundStatus(rail, "b")).body.data.status).toBe(of.words.returned)
  rail.plan("refund", "c", faults.refundFails(), faults.refundFailsLater())
  expect((await of.refund(rail, "c")).body.data.status).toBe("failed")
  expect((await of.refund(rail, "c")).body.data.status).toBe("pending")
  expect((await of.refundStatus(rail, "c")).body.data.status).toBe("failed")
  expect(rail.books.totalReturned()).toBe(1_000_000)
  rail.plan("refund", "d", faults.refundCut())
  await expect(of.refund(rail, "d")).rejects.toThrow()
  expect((await of.refund(rail, "d")).status).toBe(400)
  rail.books.settleAll()
  expect(rail.books.totalReturned()).toBe(1_500_000)
  expect((await of.verify(rail, "a")).body.data.status).toBe(of === RAILS.paystack ? "reversed" : "successful")
})

test.each(BOTH)("%s: merchants have separate books", async (_, of) => {
  const rail = await of.start()
  const second = rail.merchant("sk_second")
  const { token } = rail.books.issueToken(EMAIL)
  await of.charge(rail, "chg-1", token)
  expect((await of.charge(rail, "chg-2", token, 500_000, "sk_second")).status).toBe(400)
  expect((await of.verify(rail, "chg-1", "sk_second")).status).toBe(of.unknown)
  await of.charge(rail, "chg-1", second.books.issueToken(EMAIL).token, 700_000, "sk_second")
  expect([rail.books.totalTaken(), second.books.totalTaken()]).toEqual([500_000, 700_000])
})

test.each(BOTH)(
  "%s: after a key change the new key is valid, the old one is not, and the books stay",
  async (_, of) => {
    const rail = await of.start()
    const { token } = rail.books.issueToken(EMAIL)
    const [merchant] = rail.merchants.values()
    const old = rail.secretKey
    rail.rotate(merchant!, "sk_new", "new secret")
    expect((await of.charge(rail, "chg-1", token, 500_000, old)).status).toBe(401)
    expect((await of.charge(rail, "chg-1", token)).status).toBe(200)
    expect([rail.secretKey, rail.webhookSecret, rail.books.totalTaken()]).toEqual(["sk_new", "new secret", 500_000])
  },
)

test("callbacks have each rail's signature, and forged ones do not", async () => {
  const [first, second] = [await paystack(), await flutterwave()]
  const { headers, body } = first.callbackFor("chg_1")
  expect(headers["x-paystack-signature"]).toBe(createHmac("sha512", first.secretKey).update(body).digest("hex"))
  expect(JSON.parse(body)).toMatchObject({ event: "charge.success", data: { reference: "chg-1" } })
  const signed = second.callbackFor("chg_1", { data: { amount: 1 } })
  const expected = createHmac("sha256", second.webhookSecret).update(signed.body).digest("base64")
  expect(signed.headers["flutterwave-signature"]).toBe(expected)
  expect(JSON.parse(signed.body).data).toMatchObject({ tx_ref: "chg_1", amount: 1 })
  expect(second.callbackFor("chg_1", { signature: "hash" }).headers["verif-hash"]).toBe(second.webhookSecret)
  expect(first.forged(first.callbackFor("chg_1"), "unsigned").headers).toEqual({})
  const others = (["wrong_signature", "other_account"] as const).map((how) => first.forged({ headers, body }, how))
  expect(new Set([headers, ...others.map((one) => one.headers)].map((one) => one["x-paystack-signature"])).size).toBe(3)
  const changed = first.forged({ headers, body }, "changed_body")
  expect(JSON.parse(changed.body)).toMatchObject({ event: "charge.success", more: true })
  expect(changed.headers).toEqual(headers)
  expect(first.books.transactions.size).toBe(0)
})

test.each(BOTH)("%s: callbacks come before the answer, after it, doubled, or when released", async (_, of) => {
  const rail = await of.start()
  const shop = await merchantServer()
  rail.sendCallbacksTo(shop.url)
  const { token } = rail.books.issueToken(EMAIL)
  const order: Array<string> = []
  shop.during = async () => {
    order.push("callback")
  }
  const charge = async (reference: string) => {
    await of.charge(rail, reference, token)
    order.push("answer")
    await rail.callbacks.idle()
  }
  rail.callbacks.sending = { when: "before" }
  await charge("a")
  expect(order).toEqual(["callback", "answer"])
  rail.callbacks.sending = { when: "after", times: 2 }
  await charge("b")
  await expect.poll(() => shop.received.length).toBe(3)
  rail.callbacks.sending = { when: "kept" }
  await charge("c")
  await charge("d")
  expect(shop.received).toHaveLength(3)
  expect(rail.callbacks.kept).toHaveLength(2)
  shop.isDown = true
  await rail.callbacks.flush({ atOnce: true })
  expect(rail.callbacks.kept).toHaveLength(2)
  shop.isDown = false
  await rail.callbacks.flush({ arrange: (dues) => [...dues, ...dues].toReversed() })
  expect(shop.received).toHaveLength(9)
  expect(rail.callbacks).toMatchObject({ kept: [], taken: 7 })
  expect(await post(shop.url, rail.callbackFor("a"))).toBe(200)
})

test.each(BOTH)("%s: a seeded simulation decides each fault, and the log is bounded", async (_, of) => {
  const rail = await of.start({ logLimit: 10, now: () => 1_700_000_000_000 })
  const { token } = rail.books.issueToken(EMAIL)
  rail.decide(({ kind, reference }) =>
    kind === "charge" && /[13579]$/.test(reference) ? faults.silenceBefore() : undefined,
  )
  const references = Array.from({ length: 30 }, (_, index) => `chg-${index}`)
  const outcomes = await Promise.allSettled(references.map((reference) => of.charge(rail, reference, token)))
  expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(15)
  expect(rail.books.transactions.size).toBe(15)
  expect(rail.calls.total).toBe(30)
  expect(rail.calls.log.length).toBeLessThanOrEqual(20)
  expect(rail.calls.log.at(-1)?.at).toBe(1_700_000_000_000)
  rail.heal()
  expect((await of.charge(rail, "chg-1", token)).status).toBe(200)
})

test("a stand-in goes offline and comes back at the same address with its books", async () => {
  const rail = await paystack()
  const { token } = rail.books.issueToken(EMAIL)
  await RAILS.paystack.charge(rail, "chg-1", token)
  const { url } = rail
  await rail.offline()
  await expect(RAILS.paystack.verify(rail, "chg-1")).rejects.toThrow()
  await rail.online()
  expect(rail.url).toBe(url)
  expect((await RAILS.paystack.verify(rail, "chg-1")).body.data.status).toBe("success")
})

test("slow answers: the books have the result immediately", async () => {
  const rail = await flutterwave({ delayMs: 100 })
  const { token } = rail.books.issueToken(EMAIL)
  const answer = RAILS.flutterwave.charge(rail, "chg-1", token)
  await expect.poll(() => rail.books.find("chg-1")?.status).toBe("succeeded")
  expect(rail.underWay()).toBe(1)
  expect((await answer).status).toBe(200)
})
