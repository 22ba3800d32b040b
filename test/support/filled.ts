/** An account whose sandbox has something on every page of the dashboard: the story of the demo, and what a day in the dashboard adds. */
import { payOut } from "../../scripts/payOut.ts"
import { type Call, payInstalment, playStory } from "../../scripts/story.ts"
import type { TestDatabase } from "./database.ts"
import { type Member, type Shown, shownOf } from "./member.ts"

/** A file of a rail: a payment of which 25 naira less arrived than its fee explains, and one that the books do not have. */
const settlementFile = ({ id, amount }: { readonly id: string; readonly amount: number }): string =>
  [
    "Reference,Amount,Fees,Amount Settled,Settlement Date",
    `${id},${amount / 100},225,${amount / 100 - 250},2026-08-03`,
    "chg_of_another_service,15000,225,14775,2026-08-03",
  ].join("\n")

const upload = async (origin: string, { cookie, formToken }: Member, file: string): Promise<Shown> => {
  const body = new FormData()
  body.append("form_token", formToken)
  body.append("rail", "simulator")
  body.append("file", new Blob([file], { type: "text/csv" }), "payout of 3 August.csv")
  const headers = { cookie: `session=${cookie}`, accept: "text/html" }
  return shownOf(
    await fetch(`${origin}/dashboard/sandbox/settlements`, { method: "POST", body, redirect: "manual", headers }),
  )
}

/** Buyers who have paid one instalment, and all of them; the goods of the last one were sent. */
const fillShop = async (call: Call): Promise<void> => {
  const terms = { cycleMonths: 2, mode: "fixed", allowedFrequencies: ["monthly"] }
  const product = await call<{ id: string }>("POST", "/provider-savings/products", {
    name: "Cooker",
    price: 60_000,
    ...terms,
  })
  const saving = async (name: string, payments: number): Promise<string> => {
    const body = { buyer: { name, email: `${name.toLowerCase()}@example.com` } }
    const path = `/public/save-to-buy/products/${product.id}/plans`
    const { publicId, paymentUrl } = await call<{ publicId: string; paymentUrl: string }>("POST", path, body)
    for (let n = 0; n < payments; n++) await payInstalment({ paymentUrl })
    return publicId
  }
  await saving("Jide", 0)
  await saving("Kemi", 1)
  await saving("Lola", 2)
  await call("POST", `/provider-savings/${await saving("Musa", 2)}/ship`)
}

/** An object in each state that pages show by other actions. */
const fillStates = async (call: Call): Promise<void> => {
  const made = async (path: string, body: object) => (await call<{ id: string }>("POST", path, body)).id
  const plan = { currency: "NGN", billing_cycle: "monthly", pause_enabled: true }
  const gym = await made("/plans", { name: "Gym, mornings only", amount: 900_000, ...plan })
  const subscribe = async (name: string, payment_method = "pm_test_success") =>
    made("/subscriptions", { customer: await made("/customers", { name }), plan: gym, payment_method })
  await call("POST", `/subscriptions/${await subscribe("Ngozi")}/pause`)
  await call("POST", `/subscriptions/${await subscribe("Osas")}/cancel`, { at_period_end: true })
  await call("POST", `/plans/${await made("/plans", { name: "Pool", amount: 400_000, ...plan })}/archive`)
  await made("/customers", { name: "Oluwaseun Adebayo-Ogunbanjo & Daughters Catering", email: "seun@example.com" })
  const endpoint = { url: "https://shop.example/webhooks", enabled_events: ["*"] }
  await call("POST", `/webhook-endpoints/${await made("/webhook-endpoints", endpoint)}/test`)
  await call("PATCH", `/webhook-endpoints/${await made("/webhook-endpoints", endpoint)}`, { status: "disabled" })
  const shop = { success_url: "https://shop.example/welcome", cancel_url: "https://shop.example/plans" }
  await made("/checkout-sessions", { mode: "subscription", plan: gym, ...shop })
  await made("/nudges", {
    customer: await made("/customers", { name: "Ada Obi", phone: "+2348031234567", email: "ada@example.com" }),
    template: "payment_due",
    channels: ["whatsapp", "sms"],
  })
}

/** What finance does: a month is closed, one file is booked and one is looked at. */
const fillBooks = async (call: Call, origin: string, owner: Member): Promise<void> => {
  const [charge] = await call<ReadonlyArray<{ id: string; amount: number }>>("GET", "/charges?status=succeeded&limit=1")
  const file = settlementFile(charge!)
  await owner.post("/dashboard/sandbox/books/months/2026-01/close", { reason: "Checked with the bank" })
  const { location } = await upload(origin, owner, file)
  await owner.post(`${location}/book`)
  await upload(origin, owner, file)
}

/** Fills the sandbox of an account. */
export const fillAccount = async (
  database: Pick<TestDatabase, "run">,
  { origin, account, call }: { readonly origin: string; readonly account: string; readonly call: Call },
  owner: Member,
): Promise<void> => {
  await playStory(call, () => {})
  await database.run(() => payOut(account))
  await fillBooks(call, origin, owner)
  await fillShop(call)
  await fillStates(call)
}
