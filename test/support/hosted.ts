/** Creates sessions and payment links for the hosted pages, and reads the merchant's data afterwards. */
import type { Api } from "./api.ts"
import type { TestDatabase } from "./database.ts"
import { holdTable } from "./hold.ts"
import { advance, createClock, createCustomer, createPlan, data, eventually, subscribe } from "./story.ts"

export const PRICE = 500_000
/** For customers on a clock. */
const START = "2027-03-01T09:00:00Z"

export interface Hosted {
  readonly id: string
  readonly url: string
}

/** Creates a session, without a customer by default. */
export const openSession = async (api: Api, session: object, plan: object = {}): Promise<Hosted> => {
  const body = { mode: "subscription", plan: await createPlan(api, { ...plan }), ...session }
  return data(await api.post("/checkout-sessions", body), 201)
}

/** A session of a customer with its own clock. */
export const openOnClock = async (api: Api, session: object, plan: object = {}) => {
  const clock = await createClock(api, START)
  const customer = await createCustomer(api, { test_clock: clock })
  return { clock, customer, ...(await openSession(api, { customer, ...session }, plan)) }
}

/** The status of a session, of its subscription, and all its charges, oldest first. */
export const seen = async (api: Api, id: string): Promise<ReadonlyArray<string>> => {
  const { status, subscription } = data(await api.get(`/checkout-sessions/${id}`))
  if (subscription === null) return [status]
  const charges = await api.all(`/charges?subscription=${subscription}`)
  return [
    status,
    data(await api.get(`/subscriptions/${subscription}`)).status,
    ...charges.toReversed().map(({ status, amount }) => `${status} ${amount}`),
  ]
}

/** The link that a customer is sent about a subscription. */
export const linkAbout = async (api: Api, customer: string, subscription: string): Promise<string> => {
  const { id } = data(await api.post("/nudges", { customer, subscription, template: "payment_failed" }), 201)
  return eventually(async () => {
    const sent = data(await api.get(`/test/nudge-outbox?customer=${customer}`))
    return sent.find((one: { id: string }) => one.id === id)?.payment_link as string | undefined
  })
}

/** A subscription whose second payment was declined, with a link to pay it. */
export const overdue = async (api: Api, plan: object = {}) => {
  const story = await subscribe(api, START, "pm_test_success_then_insufficient_funds", plan)
  data(await api.patch(`/customers/${story.customer}`, { phone: "+2348031234567" }))
  await advance(api, story.clock, "2027-04-01T12:00:00Z")
  return { ...story, url: await linkAbout(api, story.customer, story.id) }
}

/** The status of a subscription, and its charges, oldest first. */
export const seenOf = async (api: Api, subscription: string): Promise<ReadonlyArray<string>> => [
  data(await api.get(`/subscriptions/${subscription}`)).status,
  ...(await api.all(`/charges?subscription=${subscription}`)).toReversed().map(({ status }) => status),
]

/**
 * Locks a table during `work`: transactions that write to it stop in the middle of their work. `work` gets a function
 * that waits until this many wait, for it or for one that waits for it.
 */
export const whileLocked = async (
  database: TestDatabase,
  table: string,
  work: (waited: (count: number) => Promise<unknown>) => Promise<void>,
): Promise<void> => {
  const locked = await holdTable(database, table)
  try {
    await work(locked.waiters)
  } finally {
    await locked.release()
  }
}
