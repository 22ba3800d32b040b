/** Time-travelling stories: a clock, a plan, customers, and the events in order. */
import { expect } from "vitest"
import type { Answer, Api } from "./api.ts"

/** For slow machines: otherwise no wait takes more than seconds. */
const LIMIT_MS = 300_000
/** A check costs the server as much as other work: the interval grows with the waiting time. */
const FIRST_LOOK_AGAIN_MS = 10
const LAST_LOOK_AGAIN_MS = 120
const SLOWING = 1.25

/** Waits until `condition` returns a value. */
export const eventually = async <T>(condition: () => Promise<T | undefined>, limitMs = LIMIT_MS): Promise<T> => {
  const limit = Date.now() + limitMs
  for (let pause = FIRST_LOOK_AGAIN_MS; ; pause = Math.min(pause * SLOWING, LAST_LOOK_AGAIN_MS)) {
    const value = await condition()
    if (value !== undefined) return value
    if (Date.now() > limit) throw new Error("The condition did not come true in time.")
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

/** The data of an answer that must have that status. */
export const data = (answer: Answer, status = 200) => {
  expect(answer.status, JSON.stringify(answer.body)).toBe(status)
  return answer.body.data
}

export const createClock = async (api: Api, frozen_time: string): Promise<string> =>
  data(await api.post("/test/clocks", { frozen_time }), 201).id

/** Advances a clock and waits until it has arrived. */
export const advance = async (api: Api, clock: string, frozen_time: string): Promise<void> => {
  data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time }), 202)
  const status = await eventually(async () => {
    const { status } = data(await api.get(`/test/clocks/${clock}`))
    return status === "advancing" ? undefined : (status as string)
  })
  expect(status).toBe("ready")
}

export const createPlan = async (api: Api, plan: Readonly<Record<string, unknown>> = {}): Promise<string> =>
  data(
    await api.post("/plans", { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly", ...plan }),
    201,
  ).id

export const createCustomer = async (api: Api, customer: Readonly<Record<string, unknown>> = {}): Promise<string> =>
  data(await api.post("/customers", { name: "Ada Obi", ...customer }), 201).id

/**
 * The `created_at` (without its zeros), type and object's status of all events of these objects, oldest first.
 * Reminders are excluded: `nudges` lists them.
 */
export const timeline = async (
  api: Api,
  about: ReadonlyArray<string>,
  { nudges = false } = {},
): Promise<ReadonlyArray<string>> => {
  const events = await api.all("/events")
  return events
    .filter(({ type }) => nudges || !type.startsWith("nudge."))
    .filter(({ data: { object } }) => about.includes(object.id) || about.includes(object.subscription))
    .reverse()
    .map(
      ({ created_at, type, data: { object } }) =>
        `${created_at.replace(/:00\.000Z$|\.000Z$/, "")} ${type} ${object.status}`,
    )
}

export interface Story {
  readonly clock: string
  readonly customer: string
  readonly plan: string
  readonly id: string
  // biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, as any client does
  readonly created: any
}

/** A customer on a clock at `at`, subscribed with `method`. */
export const subscribe = async (
  api: Api,
  at: string,
  method: string,
  plan: object = {},
  subscription: object = {},
): Promise<Story> => {
  const clock = await createClock(api, at)
  const customer = await createCustomer(api, { test_clock: clock })
  const body = { customer, plan: await createPlan(api, { ...plan }), payment_method: method, ...subscription }
  const created = data(await api.post("/subscriptions", body), 201)
  return { clock, customer, plan: body.plan, id: created.id, created }
}

/** Status, code and param of a refusal. */
export const refusal = ({ status, body }: Answer) => [status, body.error.code, body.error.param]

/** A subscription's charges, oldest first: amount, status, number of the attempt, time of creation. */
export const charges = async (api: Api, subscription: string): Promise<ReadonlyArray<string>> =>
  (await api.all(`/charges?subscription=${subscription}`))
    .toReversed()
    .map(
      ({ amount, status, attempt_number, created_at }) =>
        `${created_at.replace(/:00\.000Z$|\.000Z$/, "")} ${amount} ${status} #${attempt_number}`,
    )
