import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { checkBeforeStateError } from "../../base/problem.ts"
import type { Tenant } from "../../db/tenant.ts"
import { bind, each } from "../../http/Endpoint.ts"
import { containsFields, equals, type Finder, listOf, page } from "../../http/lists.ts"
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

/** Finds customers by a metadata key and value, in the table that has one row for each pair. */
const havingPair =
  ([key, value]: readonly [string, string]): Finder =>
  ({ sql, mine, beyond }) => {
    const pair = sql`digest = metadata_digest(${key}, ${value})`
    return sql`SELECT customer_id AS id FROM customer_metadata_pair WHERE ${sql.and([mine, pair, ...beyond("customer_id")])}`
  }

const renderOne = (row: CustomerRow) => Effect.map(renderCustomers([row]), ([customer]) => customer!)

const deletedMethod = ({ livemode }: Tenant, id: string) => deleted("payment_method", { livemode, id })

export const customerEndpoints = [
  bind(customerApi.create, {
    kind: "write",
    // A new customer on a clock changes the clock's row; any other waits for no lock.
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
      const { email, phone, test_clock, metadata } = request.query
      const [pair] = Object.entries(metadata ?? {})
      // Few customers share an e-mail address or phone number: their metadata is compared directly.
      const finder = pair === undefined || email !== undefined || phone !== undefined ? undefined : havingPair(pair)
      const filters = [
        // An unencoded plus arrives as a space. No address contains a space, and no phone number begins with one.
        email === undefined
          ? undefined
          : (sql: SqlClient.SqlClient) => sql`email_key = lower(${email.replaceAll(" ", "+")})`,
        equals("phone", phone?.replace(/^ /, "+")),
        equals("test_clock_id", test_clock),
        containsFields("metadata", metadata),
      ]
      const rows = yield* page(customers, request, request.query, filters, { finder })
      return { ...rows, data: yield* renderCustomers(rows.data) }
    }),
  }),
  bind(customerApi.get, {
    kind: "read",
    run: (request) => Effect.flatMap(customers.get(request, request.id), renderOne),
  }),
  bind(customerApi.update, {
    kind: "two-phase",
    check: checkMethod("default_payment_method"),
    begin: each(
      Effect.fnUntraced(function* (request) {
        const { customer, now, newMethod } = yield* updateCustomer(request, request.id, request.body)
        const users = yield* MethodUsers
        const after = newMethod === undefined ? Effect.void : yield* users.methodSet(customer, newMethod, now)
        const rendered = yield* renderOne(customer)
        return { id: customer.id, made: () => rendered, after: Effect.as(after, rendered) }
      }),
    ),
    finish: (_, id) => Effect.flatMap(MethodUsers, (users) => users.recover(id)),
    reply: (tenant, id) => Effect.flatMap(customers.get(tenant, id), renderOne),
  }),
  bind(customerApi.listMethods, {
    kind: "read",
    run: Effect.fnUntraced(function* (request) {
      const customer = yield* customers.get(request, request.id)
      // Sandbox IDs do not sort by time.
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
        const methodCheck = getPaymentMethod(request, id)
        const { customer, now } = yield* checkBeforeStateError(methodCheck, lockForChange(request, request.id))
        yield* methodCheck
        const after = yield* (yield* MethodUsers).methodRemoved(customer, id, now)
        yield* detach(customer, id)
        const response = deletedMethod(request, id)
        return { id: methodKey(customer.id, id), made: () => response, after: Effect.as(after, response) }
      }),
    ),
    finish: (_, key) => Effect.flatMap(MethodUsers, (users) => users.recover(namesOf(key).customer)),
    reply: (tenant, key) => Effect.succeed(deletedMethod(tenant, namesOf(key).method)),
  }),
]
