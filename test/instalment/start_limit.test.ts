/** Tests how many instalment plans an address may start, and what counts. */
import { expect, it } from "vitest"
import { createProduct, useShop } from "../support/instalments.ts"
import { useOwnInstance } from "../support/instance.ts"

const { api, server } = useOwnInstance(() => ({ RATE_LIMIT_INSTALMENT_PLANS: "3" }))
const { buyers } = useShop({ api, server })

it("a repeated request with its Idempotency-Key starts one plan, and counts once", async () => {
  const path = `/public/save-to-buy/products/${await createProduct(api)}/plans`
  const buyer = { name: "Ada Obi", email: "ada@example.com", phone: "0803 123 4567" }
  const start = (key: string) => buyers().post(path, { buyer }, { "idempotency-key": key })
  const first = await start("one")
  expect(first.status).toBe(201)
  for (let n = 0; n < 5; n++) expect((await start("one")).body).toEqual(first.body)
  expect((await start("two")).status).toBe(201)
  expect((await start("three")).status).toBe(201)
  expect((await start("four")).body.error.code).toBe("rate_limited")
})
