/** Tests charges at external rails that are decided immediately: the meaning of each answer (decisions P4, P9). */
import { describe, expect, it } from "vitest"
import type { FailureCode } from "../../src/rails/rail/PaymentRail.ts"
import { dump, spellings } from "../support/dump.ts"
import { useMailbox } from "../support/mailbox.ts"
import { faults } from "../support/rails/fault.ts"
import { BOTH, DUE, emailOf, newMerchant, useRails } from "../support/rails/live.ts"
import { putOnRail, saveCard } from "../support/rails/merchant.ts"
import { data, eventually } from "../support/story.ts"

const mailbox = useMailbox()
const { database, server, open, railOf } = useRails(() => ({
  LOG_LEVEL: "debug",
  SMTP_URL: mailbox.url(),
  EMAIL_FROM: "billing@example.com",
}))

/** Rails' texts of declines, one for each code that they have a text for. */
const DECLINES: ReadonlyArray<readonly [string, FailureCode]> = [
  ["Insufficient Funds", "insufficient_funds"],
  ["Exceeds withdrawal limit", "limit_exceeded"],
  ["Do Not Honour", "do_not_honor"],
  ["Declined", "unknown_decline"],
  ["Something that is not documented", "unknown_decline"],
  ["Issuer or switch inoperative", "issuer_unavailable"],
  ["System error", "processor_error"],
  ["Expired card", "expired_card"],
  ["Lost card", "lost_card"],
  ["Stolen card", "stolen_card"],
  ["Pick up card", "pick_up_card"],
  ["Restricted Card", "restricted_card"],
  ["Account Closed", "account_closed"],
  ["Invalid account number", "invalid_card"],
  ["Transaction not permitted to cardholder", "not_permitted"],
  ["Denied by Fraud System", "suspected_fraud"],
  ["Customer stopped recurring payments", "authorization_revoked"],
  ["Incorrect PIN", "authentication_failed"],
  ["Invalid amount", "amount_invalid"],
  ["51", "insufficient_funds"],
]

describe.concurrent.each(BOTH)("%s", (name) => {
  it("charges a saved card, once", async () => {
    const account = await open(name)
    const charge = await account.charge(123_456)
    expect(charge).toMatchObject({ status: "succeeded", processor: name, amount: 123_456, failure_code: null })
    expect(account.merchant.books.get(charge.id)).toMatchObject({ taken: [123_456], status: "succeeded" })
    expect(await account.books()).toEqual({ clearing: 123_456, one_off_revenue: -123_456 })
    expect(await account.events(charge.id)).toEqual(["charge.succeeded succeeded"])
    expect(await account.exceptions()).toEqual([])
  })

  it("renews a subscription when its period ends", async () => {
    const account = await open(name)
    const subscription = await account.subscribe(500_000)
    const before = data(await account.api.get(`/subscriptions/${subscription}`))
    await account.pass(DUE)
    const charge = await account.settled((await account.latest(subscription)).id)
    expect(charge).toMatchObject({ status: "succeeded", attempt_number: 1, amount: 500_000, processor: name })
    expect(account.merchant.books.get(charge.id).taken).toEqual([500_000])
    expect(await account.events(subscription)).toEqual([
      "subscription.created active",
      "charge.succeeded succeeded",
      "charge.succeeded succeeded",
      "subscription.renewed active",
    ])
    const after = data(await account.api.get(`/subscriptions/${subscription}`))
    expect([after.status, after.current_period_end]).toEqual(["active", before.current_period_end])
    expect(await account.books()).toEqual({ clearing: 1_000_000, deferred_revenue: -1_000_000 })
  })

  it("shows each decline by its code and in the rail's own words", async () => {
    const account = await open(name)
    const buyer = await account.buyer()
    const inData = DECLINES.map(([words, code]) => ({ words, code, where: "data" as const }))
    // Unknown texts, in an error of the processor, have this code.
    const inErrors = DECLINES.filter(([words]) => !words.startsWith("Something")).map(([words, code]) => ({
      words,
      code,
      where: "error" as const,
    }))
    const rows = [...inData, ...inErrors]
    const made = rows.map(async ({ words, where }, index) => {
      const amount = 100_000 + index
      account.plan("charge", faults.decline(words, { spoken: where }), amount)
      const { status, failure_code, failure_message, paid_at } = await account.charge(amount, buyer)
      return { status, failure_code, failure_message, paid_at }
    })
    expect(await Promise.all(made)).toEqual(
      rows.map(({ words, code }) => ({
        status: "failed",
        failure_code: code,
        failure_message: words,
        paid_at: null,
      })),
    )
    expect(await account.books()).toEqual({})
    expect(await account.exceptions()).toEqual([])
  })

  it("retries a renewal on schedule after a temporary failure, and not after a permanent one", async () => {
    const account = await open(name)
    const [passing, final] = [await account.subscribe(500_000), await account.subscribe(600_000)]
    account.plan("charge", faults.decline("Insufficient Funds"), 500_000)
    account.plan("charge", faults.decline("Expired card"), 600_000)
    await account.pass(DUE)
    const first = await account.settled((await account.latest(passing)).id)
    const other = await account.settled((await account.latest(final)).id)
    const dueAt = Date.parse(first.lines[0].period?.start ?? first.created_at)
    expect(first).toMatchObject({ failure_code: "insufficient_funds", will_retry: true, attempt_number: 1 })
    expect(Date.parse(first.next_retry_at) - dueAt).toBeGreaterThan(0)
    expect(other).toMatchObject({ failure_code: "expired_card", will_retry: false, next_retry_at: null })
    expect(await account.books()).toEqual({ clearing: 1_100_000, receivable: 1_100_000, deferred_revenue: -2_200_000 })
    // The retry succeeds, under its own reference.
    await account.pass(Date.parse(first.next_retry_at) - Date.now())
    const second = await account.settled((await account.latest(passing)).id)
    expect(second).toMatchObject({ status: "succeeded", attempt_number: 2 })
    expect(second.id).not.toBe(first.id)
    expect((await account.latest(final)).id).toBe(other.id)
    expect(await account.events(passing)).toEqual([
      "subscription.created active",
      "charge.succeeded succeeded",
      "charge.failed failed",
      "subscription.past_due past_due",
      "charge.retry_scheduled failed",
      "charge.succeeded succeeded",
      "subscription.recovered active",
    ])
    expect(await account.books()).toEqual({ clearing: 1_600_000, receivable: 600_000, deferred_revenue: -2_200_000 })
  })

  it("delays the next retry until the time that the rail names", async () => {
    const account = await open(name)
    const subscription = await account.subscribe(500_000)
    const retryBy = new Date(Math.ceil(Date.now() / 1000) * 1000 + 2 * DUE)
    const words = "Charge attempt cannot be fulfilled until a later time"
    account.plan("charge", faults.decline(words, { retryBy: retryBy.toISOString() }))
    await account.pass(DUE)
    const charge = await account.settled((await account.latest(subscription)).id)
    expect(charge).toMatchObject({ failure_code: "card_throttled", failure_message: words, will_retry: true })
    // Flutterwave names no time: the usual schedule.
    if (name === "paystack") expect(charge.next_retry_at).toBe(retryBy.toISOString())
    else expect(Date.parse(charge.next_retry_at)).toBeLessThan(retryBy.getTime())
  })

  it("fails a charge that needs the cardholder's confirmation, and sends the payment link", async () => {
    const account = await open(name)
    const subscription = await account.subscribe(500_000)
    account.plan("charge", faults.stepUp())
    await account.pass(DUE)
    const charge = await account.settled((await account.latest(subscription)).id)
    expect(charge).toMatchObject({ failure_code: "authentication_required", will_retry: false, next_retry_at: null })
    const mail = await eventually(async () => mailbox.to(emailOf(account.id)).at(-1))
    expect(mail.text).toMatch(/\/pay\/00[\w-]{51}/)
    expect(account.merchant.books.totalTaken()).toBe(500_000)
  })

  it("fails a charge that the account may not make, and informs the operator without the key", async () => {
    const account = await open(name)
    const { secretKey } = account.merchant
    account.plan("charge", faults.unauthorized())
    expect(await account.charge(200_000)).toMatchObject({ status: "failed", failure_code: "rail_misconfigured" })
    const lines = await eventually(async () => {
      const found = server()
        .output()
        .split("\n")
        .filter((line) => line.includes("a rail refuses an account's calls") && line.includes(account.id))
      return found.length > 0 ? found : undefined
    })
    expect(lines[0]).toMatch(/error/i)
    // Rails report this for a transaction, too.
    account.plan("charge", faults.decline("Invalid Merchant"))
    expect(await account.charge(200_000)).toMatchObject({ status: "failed", failure_code: "rail_misconfigured" })
    await eventually(async () => {
      const all = server().output().split("a rail refuses an account's calls").length - 1
      return all > lines.length ? true : undefined
    })
    expect(server().output()).not.toContain(secretKey)
    expect(account.merchant.books.totalTaken()).toBe(0)
  })

  it("charges a method at the rail that saved it, whichever rail the account uses now", async () => {
    const account = await open(name, { compared: false })
    const other = name === "paystack" ? "flutterwave" : "paystack"
    const elsewhere = newMerchant(railOf(other))
    const old = await account.buyer()
    await putOnRail(database, account.id, other, elsewhere)
    const fresh = {
      customer: old.customer,
      method: await saveCard(database, account.id, other, elsewhere, old.customer, "new@example.com"),
    }
    expect(await account.charge(300_000, old)).toMatchObject({ status: "succeeded", processor: name })
    expect(await account.charge(40_000, fresh)).toMatchObject({ status: "succeeded", processor: other })
    expect([account.merchant.books.totalTaken(), elsewhere.books.totalTaken()]).toEqual([300_000, 40_000])
    await database.run((sql) => sql`DELETE FROM rail_credential WHERE account_id = ${account.id} AND rail = ${name}`)
    expect(await account.charge(300_000, old)).toMatchObject({
      status: "failed",
      failure_code: "payment_method_inactive",
      processor: name,
    })
    expect(await account.charge(50_000, fresh)).toMatchObject({ status: "succeeded" })
    expect(await account.books()).toMatchObject({ clearing: 390_000 })
    expect([account.merchant.books.totalTaken(), elsewhere.books.totalTaken()]).toEqual([300_000, 90_000])
  })

  it("uses new credentials from the next call on, while calls with the old ones are in progress", async () => {
    const account = await open(name)
    const { merchant, rail } = account
    const buyer = await account.buyer()
    const before = merchant.secretKey
    account.plan("charge", faults.delay(700))
    const underWay = account.charge(100_000, buyer)
    await eventually(async () => (rail.underWay(before) === 1 ? true : undefined))
    rail.rotate(merchant, `${before}_rolled`)
    await putOnRail(database, account.id, name, merchant)
    expect(await account.charge(200_000, buyer)).toMatchObject({ status: "succeeded" })
    expect(await underWay).toMatchObject({ status: "succeeded" })
    expect(rail.calls.log.filter(({ key }) => key === before).map(({ amountKobo }) => amountKobo)).toEqual([100_000])
  })
})

it("keeps keys, tokens and the e-mails saved with them out of logs, answers, events and dumps", async () => {
  for (const name of BOTH) {
    const account = await open(name)
    const email = `saved.with.${name}@example.com`
    const buyer = await account.buyer(email)
    const [token] = [...account.merchant.books.tokens.keys()] as [string]
    const { secretKey, webhookSecret } = account.merchant
    // A rail that repeats its input.
    for (const spoken of ["data", "error"] as const)
      account.plan("charge", faults.decline(`No such thing as ${token} for ${secretKey}`, { spoken }))
    account.plan("charge", [faults.html500(), faults.unauthorized(), faults.stepUp()])
    for (let n = 0; n < 6; n++) await account.charge(100_000 + n, buyer)
    const subscription = await account.subscribe(500_000, buyer)
    const answers = await Promise.all(
      ["/charges", "/events", "/customers", "/nudges", "/subscriptions"].map((path) => account.api.all(path)),
    )
    const shown = [
      ...answers,
      data(await account.api.get(`/customers/${buyer.customer}`)),
      data(await account.api.get(`/subscriptions/${subscription}`)),
    ].map((answer) => JSON.stringify(answer))
    const texts = [server().output(), ...shown]
    const rows = await dump(database)
    for (const secret of [token, secretKey, webhookSecret]) {
      for (const text of texts) expect(text).not.toContain(secret)
      for (const spelling of spellings(secret)) expect(rows.filter((row) => row.includes(spelling))).toEqual([])
    }
    for (const text of texts) expect(text).not.toContain(email)
    const withEmail = rows.filter((row) => row.includes(email))
    expect(withEmail).toHaveLength(1)
    expect(withEmail[0]).toMatch(/^public\.payment_method /)
  }
})
