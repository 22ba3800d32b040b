import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { beforeState } from "../../base/problem.ts"
import type { Tenant } from "../../db/tenant.ts"
import { bind, each } from "../../http/Endpoint.ts"
import { equals, type Finder, holds, listOf, page } from "../../http/lists.ts"
import { deleted } from "../../http/response.ts"
import {
  checkMethod,
  detach,
  getPaymentMethod,
  methodKey,
  namesOf,
  paymentMethods,
  renderPaymentMethod,
} from "../payment_method/paymentMethods.ts"
import { customerApi } from "./api.ts"
import { type CustomerRow, customers, renderCustomers } from "./customer.ts"
import { createCustomers, lockForChange, updateCustomer } from "./customers.ts"
import { MethodUsers } from "./MethodUsers.ts"

/** Customers with a key and its value in their metadata: a row for each is kept for this. */
const havingPair =
  ([key, value]: readonly [string, string]): Finder =>
  ({ sql, mine, beyond }) => {
    const pair = sql`digest = metadata_digest(${key}, ${value})`
    return sql`SELECT customer_id AS id FROM customer_metadata_pair WHERE ${sql.and([mine, pair, ...beyond("customer_id")])}`
  }

const one = (row: CustomerRow) => Effect.map(renderCustomers([row]), ([customer]) => customer!)

const removed = ({ livemode }: Tenant, id: string) => deleted("payment_method", { livemode, id })

export const customerEndpoints = [
  bind(customerApi.create, {
    kind: "write",
    // A clock, which has one more customer then; otherwise nothing that there is.
    lockKey: ({ body }) => body.test_clock ?? "",
    run: (tenant, requests) =>
      createCustomers(
        tenant,
        requests.map(({ body }) => body),
      ),
  }),
  bind(customerApi.list, {
    kind: "read",
    run: Effect.fnUntraced(function* (request) {
      const { email, phone, metadata } = request.query
      const [pair] = Object.entries(metadata ?? {})
      // Those with an e-mail address or phone number are few: their metadata is looked at.
      const finder = pair === undefined || email !== undefined || phone !== undefined ? undefined : havingPair(pair)
      const filters = [
        // A plus that is not encoded arrives as a space, which no address has, and with which no number begins.
        email === undefined
          ? undefined
          : (sql: SqlClient.SqlClient) => sql`email_key = lower(${email.replaceAll(" ", "+")})`,
        equals("phone", phone?.replace(/^ /, "+")),
        holds("metadata", metadata),
      ]
      const rows = yield* page(customers, request, request.query, filters, { finder })
      return { ...rows, data: yield* renderCustomers(rows.data) }
    }),
  }),
  bind(customerApi.get, { kind: "read", run: (request) => Effect.flatMap(customers.get(request, request.id), one) }),
  bind(customerApi.update, {
    kind: "two-phase",
    check: checkMethod("default_payment_method"),
    begin: each(
      Effect.fnUntraced(function* (request) {
        const { customer, now, newMethod } = yield* updateCustomer(request, request.id, request.body)
        const users = yield* MethodUsers
        const after = newMethod === undefined ? Effect.void : yield* users.methodSet(customer, newMethod, now)
        const shown = yield* one(customer)
        return { id: customer.id, made: () => shown, after: Effect.as(after, shown) }
      }),
    ),
    finish: (_, id) => Effect.flatMap(MethodUsers, (users) => users.recover(id)),
    reply: (tenant, id) => Effect.flatMap(customers.get(tenant, id), one),
  }),
  bind(customerApi.listMethods, {
    kind: "read",
    run: Effect.fnUntraced(function* (request) {
      const customer = yield* customers.get(request, request.id)
      // Sandbox IDs are in no order of time.
      return yield* listOf(paymentMethods, request, renderPaymentMethod, [equals("customer_id", customer.id)], {
        order: "attached_no",
      })
    }),
  }),
  bind(customerApi.deleteMethod, {
    kind: "two-phase",
    begin: each(
      Effect.fnUntraced(function* (request) {
        const id = request.params.payment_method!
        const judged = getPaymentMethod(request, id)
        const { customer, now } = yield* beforeState(judged, lockForChange(request, request.id))
        yield* judged
        const after = yield* (yield* MethodUsers).methodRemoved(customer, id, now)
        yield* detach(customer, id)
        const made = removed(request, id)
        return { id: methodKey(customer.id, id), made: () => made, after: Effect.as(after, made) }
      }),
    ),
    finish: (_, key) => Effect.flatMap(MethodUsers, (users) => users.recover(namesOf(key).customer)),
    reply: (tenant, key) => Effect.succeed(removed(tenant, namesOf(key).method)),
  }),
]
