/** Tests reminders of subscriptions that start, or are paid, while their plan's rules change (decision C3). */
import { Effect } from "effect"
import { expect, it } from "vitest"
import { lockUntilReleased } from "../support/hold.ts"
import { useInstance } from "../support/instance.ts"
import { createCustomer, createPlan, data } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

/** The days before the period's (or trial's) end on which a subscription's next reminder is due. */
const daysBefore = async (id: string): Promise<number> => {
  const [row] = await database.run(
    (sql) => sql<{ days: number }>`
      SELECT extract(day FROM s.next_charge_at - t.due_at)::integer AS days FROM subscription s
      JOIN timer t ON (t.account_id, t.livemode, t.actor_id) = (s.account_id, s.livemode, s.id) AND t.name = 'reminder' WHERE s.id = ${id}`,
  )
  return row!.days
}

const subscribe = async (plan: string, over: Readonly<Record<string, unknown>> = {}): Promise<string> => {
  const customer = await createCustomer(api)
  return data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success", ...over }), 201).id
}

it("use the rules at the settlement of a payment, whatever the process has cached", async () => {
  const plan = await createPlan(api, { reminders: { pre_due_days: [5] } })
  const first = await subscribe(plan)
  expect(await daysBefore(first)).toBe(5)
  data(await api.patch(`/plans/${plan}`, { reminders: { pre_due_days: [7] } }))
  expect(await daysBefore(await subscribe(plan))).toBe(7)
  expect(await daysBefore(await subscribe(plan))).toBe(7)
})

it("use the new rules for a subscription that starts while they change", async () => {
  const plan = await createPlan(api, { reminders: { pre_due_days: [5] } })
  for (const over of [{ trial_days: 30 }, {}]) {
    await database.run(
      (sql) => sql`UPDATE plan SET reminders = jsonb_set(reminders, '{pre_due_days}', '[5]') WHERE id = ${plan}`,
    )
    // As a change of the plan does it: locked first.
    const changing = await lockUntilReleased(database, (sql) =>
      Effect.andThen(
        sql`SELECT 1 FROM plan WHERE id = ${plan} FOR UPDATE`,
        sql`UPDATE plan SET reminders = jsonb_set(reminders, '{pre_due_days}', '[7]') WHERE id = ${plan}`,
      ),
    )
    const subscribing = subscribe(plan, over)
    await changing.waiters()
    await changing.release()
    expect(await daysBefore(await subscribing)).toBe(7)
  }
})

it("cannot change before a transaction that uses them is written", async () => {
  const plan = await createPlan(api)
  const beginning = await lockUntilReleased(database, (sql) => sql`SELECT 1 FROM plan WHERE id = ${plan} FOR KEY SHARE`)
  const changing = api.patch(`/plans/${plan}`, { reminders: { pre_due_days: [7] } })
  await beginning.waiters()
  await beginning.release()
  expect(data(await changing).reminders.pre_due_days).toEqual([7])
})
