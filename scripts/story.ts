/** A merchant's story in the sandbox, for the demo and the examples of docs/ledger.md. */

const LOOK_AGAIN_MS = 20

/** Creates a function that calls the API like a merchant's program. */
export const caller =
  (origin: string, key: string) =>
  async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(`${origin}/sandbox/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const answer = (await response.json()) as { success: boolean; data: T; error?: { message: string } }
    if (!answer.success) throw new Error(`${method} ${path}: ${answer.error?.message}`)
    return answer.data
  }

interface Person {
  readonly name: string
  readonly plan: "gym" | "diesel" | "gas"
  readonly method: string
  readonly trial_days?: number
  readonly start_at?: string
  readonly what: string
}

const PEOPLE: ReadonlyArray<Person> = [
  { name: "Ada", plan: "gym", method: "pm_test_success", what: "a card that always works" },
  {
    name: "Bola",
    plan: "gym",
    method: "pm_test_succeeds_on_attempt_3",
    trial_days: 14,
    what: "a fortnight's trial, then a card that works at the third attempt",
  },
  {
    name: "Chidi",
    plan: "gym",
    method: "pm_test_success_then_insufficient_funds",
    what: "a card that works once",
  },
  {
    name: "Dayo",
    plan: "diesel",
    method: "pm_test_verve",
    what: "a generator: a standing fee, and ₦1,200.00 for each litre",
  },
  {
    name: "Efe",
    plan: "gym",
    method: "pm_test_mastercard",
    what: "travels: pauses on 14 March, and is back on 20 May",
  },
  { name: "Funke", plan: "gas", method: "pm_test_visa", what: "pays for each cylinder of gas that is delivered" },
  {
    name: "Gozie",
    plan: "gym",
    method: "pm_test_success_then_expired_card",
    start_at: "2026-06-20T08:00:00Z",
    what: "joins on 20 June, with a card that expires soon after",
  },
]

export type Call = ReturnType<typeof caller>
type Subscriptions = Readonly<Record<string, string>>

/** A buyer who pays for an inverter in instalments, through the public link. */
interface Saver {
  readonly name: string
  readonly email: string
  readonly what: string
}

const SAVERS: ReadonlyArray<Saver> = [
  {
    name: "Hauwa",
    email: "hauwa@example.com",
    what: "saves for an inverter month by month: misses one, and catches up",
  },
  { name: "Ife", email: "ife@example.com", what: "saves for one too, and gives it up in May" },
]

interface Saving {
  readonly publicId: string
  readonly accessToken: string
  readonly paymentUrl: string
}
type Savings = Readonly<Record<string, Saving>>

/** Pays the due instalment. */
export const payInstalment = async ({ paymentUrl }: Pick<Saving, "paymentUrl">): Promise<void> => {
  const response = await fetch(`${paymentUrl}/complete`, {
    method: "POST",
    headers: { accept: "application/json", "content-type": "application/json" },
    body: JSON.stringify({ payment_method: "pm_test_visa" }),
  })
  if (!response.ok) throw new Error(`An instalment was not paid: ${await response.text()}`)
}

/** The actions of the merchant and the buyers, in order of time: the clock is advanced to each. */
const ACTIONS: ReadonlyArray<
  readonly [at: string, act: (call: Call, of: Subscriptions, by: Savings) => Promise<unknown>]
> = [
  ["2026-02-12", (call, of) => call("POST", `/subscriptions/${of.Funke}/unit-records`, { quantity: 1 })],
  ...[40, 55, 38, 61, 47].map(
    (quantity, n) =>
      [
        `2026-0${n + 2}-27`,
        (call: Call, of: Subscriptions) =>
          call("POST", `/subscriptions/${of.Dayo}/unit-records`, { quantity, description: "litres" }),
      ] as const,
  ),
  ["2026-03-14", (call, of) => call("POST", `/subscriptions/${of.Efe}/pause`, { resumes_at: "2026-05-20T08:00:00Z" })],
  ["2026-04-03", (call, of) => call("POST", `/subscriptions/${of.Funke}/unit-records`, { quantity: 2 })],
  ["2026-03-06", (_, __, by) => payInstalment(by.Hauwa!)],
  ["2026-03-07", (_, __, by) => payInstalment(by.Ife!)],
  ["2026-03-30", (_, __, by) => payInstalment(by.Hauwa!)],
  ["2026-04-08", (call, _, by) => call("POST", `/provider-savings/${by.Hauwa!.publicId}/ship`)],
  ["2026-04-13", (call, _, by) => call("POST", `/provider-savings/${by.Hauwa!.publicId}/deliver`)],
  ["2026-05-04", (call, _, by) => call("POST", `/public/save-to-buy/p/${by.Ife!.accessToken}/cancel`)],
]

const advance = async (call: ReturnType<typeof caller>, clock: string, frozen_time: string): Promise<void> => {
  await call("POST", `/test/clocks/${clock}/advance`, { frozen_time })
  for (;;) {
    const { status } = await call<{ status: string }>("GET", `/test/clocks/${clock}`)
    if (status !== "advancing") return
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
}

/** The objects of the story, by ID. */
export interface StoryObjects {
  readonly clock: string
  readonly plans: Readonly<Record<Person["plan"], string>>
  readonly customers: ReadonlyMap<string, string>
  readonly subscriptions: Subscriptions
  /** Instalment plans by their buyers' names. */
  readonly savings: Readonly<Record<string, string>>
}

/** The names of the story's objects in docs/ledger.md, by ID. */
export const namesOf = ({
  clock,
  plans,
  customers,
  subscriptions,
  savings,
}: StoryObjects): ReadonlyMap<string, string> =>
  new Map([
    [clock, "clock_demo"],
    ...Object.entries(plans).map(([name, id]): readonly [string, string] => [id, `plan_${name}`]),
    ...[...customers].map(([id, name]): readonly [string, string] => [id, `cus_${name.toLowerCase()}`]),
    ...Object.entries(subscriptions).map(([name, id]): readonly [string, string] => [id, `sub_${name.toLowerCase()}`]),
    ...Object.entries(savings).map(([name, id]): readonly [string, string] => [id, `SB-${name.toUpperCase()}`]),
  ])

/** Plays six months of a merchant's sandbox, on a clock; `say` receives a line about each person. */
export const playStory = async (call: Call, say: (line: string) => void): Promise<StoryObjects> => {
  const made = (path: string, body: object) => call<{ id: string }>("POST", path, body)
  const clock = await made("/test/clocks", { frozen_time: "2026-01-31T08:00:00Z", name: "Demo" })
  const monthly = { currency: "NGN", billing_cycle: "monthly" }
  const plans = {
    gym: await made("/plans", { name: "Gym", amount: 1_500_000, pause_enabled: true, ...monthly }),
    diesel: await made("/plans", { name: "Diesel", amount: 500_000, overage_per_unit: 120_000, ...monthly }),
    gas: await made("/plans", { name: "Gas", amount: 1_250_000, currency: "NGN", billing_cycle: "per_delivery" }),
  }
  const customers = new Map<string, string>()
  const subscriptions: Record<string, string> = {}
  say(`Three plans, a product, ${PEOPLE.length + SAVERS.length} customers, and a clock at 31 January 2026:`)
  for (const { name, plan, method, trial_days, start_at, what } of PEOPLE) {
    const phone = `+23480312345${10 + customers.size}`
    const customer = await made("/customers", { name, phone, test_clock: clock.id })
    const terms = {
      ...(trial_days === undefined ? {} : { trial_days }),
      ...(start_at === undefined ? {} : { start_at }),
    }
    const body = { customer: customer.id, plan: plans[plan].id, payment_method: method, ...terms }
    subscriptions[name] = (await made("/subscriptions", body)).id
    customers.set(customer.id, name)
    say(`  ${name.padEnd(6)} ${what}`)
  }
  await call("PATCH", "/providers/me/vertical", { vertical: "ecommerce" })
  const product = await made("/provider-savings/products", {
    name: "Inverter",
    price: 240_000,
    cycleMonths: 3,
    mode: "fixed",
    allowedFrequencies: ["monthly"],
    slots: 10,
    lateFee: 2_000,
  })
  const savings: Record<string, Saving> = {}
  for (const { name, email, what } of SAVERS) {
    const body = { buyer: { name, email }, testClock: clock.id }
    savings[name] = await call<Saving>("POST", `/public/save-to-buy/products/${product.id}/plans`, body)
    const [customer] = await call<ReadonlyArray<{ id: string }>>("GET", `/customers?email=${email}`)
    customers.set(customer!.id, name)
    await payInstalment(savings[name])
    say(`  ${name.padEnd(6)} ${what}`)
  }
  for (const [at, act] of ACTIONS.toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    await advance(call, clock.id, `${at}T08:00:00Z`)
    await act(call, subscriptions, savings)
  }
  await advance(call, clock.id, "2026-07-31T08:00:00Z")
  return {
    clock: clock.id,
    plans: { gym: plans.gym.id, diesel: plans.diesel.id, gas: plans.gas.id },
    customers,
    subscriptions,
    savings: Object.fromEntries(Object.entries(savings).map(([name, { publicId }]) => [name, publicId])),
  }
}
