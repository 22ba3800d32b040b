/** Creates a shop and its buyers, who pay for goods in instalments. */
import { beforeAll, expect } from "vitest"
import { type Answer, type Api, createApi } from "./api.ts"
import { submit } from "./checkout.ts"
import type { Instance } from "./instance.ts"
import { data } from "./story.ts"

const VISA = "pm_test_visa"

/** Makes the account a shop, which instalment plans need. Call at the top of a test file. */
export const useShop = ({ api, server }: Pick<Instance, "api" | "server">) => {
  beforeAll(async () => {
    data(await api.patch("/providers/me/vertical", { vertical: "ecommerce" }))
  })
  /** Without a key. */
  const buyers = (environment: "sandbox" | "live" = "sandbox"): Api =>
    createApi(server().origin, undefined, environment)
  return { buyers }
}

/** A product of three monthly instalments of ₦1,000, and of ₦1,001 the last. A missed one has a fee of ₦100. */
export const createProduct = async (api: Api, over: Readonly<Record<string, unknown>> = {}): Promise<string> =>
  data(
    await api.post("/provider-savings/products", {
      name: "Inverter",
      price: 3_001,
      cycleMonths: 3,
      mode: "fixed",
      allowedFrequencies: ["monthly"],
      lateFee: 100,
      ...over,
    }),
    201,
  ).id

export interface StartedPlan {
  readonly id: string
  readonly token: string
  readonly pageUrl: string
  readonly paymentUrl: string
}

const BUYER = { name: "Ada Obi", email: "ada@example.com", phone: "0803 123 4567" }

export const beginPlan = async (
  buyers: Api,
  product: string,
  over: Readonly<Record<string, unknown>> = {},
): Promise<StartedPlan> => {
  const made = data(await buyers.post(`/public/save-to-buy/products/${product}/plans`, { buyer: BUYER, ...over }), 201)
  return { id: made.publicId, token: made.accessToken, pageUrl: made.pageUrl, paymentUrl: made.paymentUrl }
}

/** Pays the amount due, or more, as a program does. */
export const pay = (plan: Pick<StartedPlan, "paymentUrl">, fields: Readonly<Record<string, unknown>> = {}) =>
  submit(`${plan.paymentUrl}`, { payment_method: VISA, ...fields })

export const cancel = (buyers: Api, { token }: Pick<StartedPlan, "token">) =>
  buyers.post(`/public/save-to-buy/p/${token}/cancel`)

/** The error of an answer that must have that status. */
export const refused = (answer: Answer, status: number) => {
  expect(answer.status, JSON.stringify(answer.body)).toBe(status)
  return answer.body.error
}
