/** Time-travelling stories: a clock, a plan, customers, and what happened in order. */
import { expect } from "vitest"
import type { Answer, Api } from "./api.ts"

const ADVANCE_LIMIT_MS = 60_000
const LOOK_AGAIN_MS = 15

/** Waits until `condition` gives a value. */
export const eventually = async <T>(
  condition: () => Promise<T | undefined>,
  limitMs = ADVANCE_LIMIT_MS,
): Promise<T> => {
  const limit = Date.now() + limitMs
  for (;;) {
    const value = await condition()
    if (value !== undefined) return value
    if (Date.now() > limit) throw new Error("The condition did not come true in time.")
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
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

/** `created_at` (without its zeros), type and the object's status: of all that happened to these objects, oldest first. */
export const timeline = async (api: Api, about: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const events = await api.all("/events")
  return events
    .filter(({ data: { object } }) => about.includes(object.id) || about.includes(object.subscription))
    .reverse()
    .map(
      ({ created_at, type, data: { object } }) =>
        `${created_at.replace(/:00\.000Z$|\.000Z$/, "")} ${type} ${object.status}`,
    )
}
