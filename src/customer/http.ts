import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { bind } from "../http/Endpoint.ts"
import { page } from "../http/lists.ts"
import { customerApi } from "./api.ts"
import { type CustomerRow, createCustomer, getCustomer, renderCustomers, updateCustomer } from "./Customers.ts"

const one = (row: CustomerRow) => Effect.map(renderCustomers([row]), ([customer]) => customer!)

export const customerEndpoints = [
  bind(customerApi.create, { kind: "write", run: (request) => createCustomer(request, request.body) }),
  bind(customerApi.list, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { email, phone, metadata } = request.query
        const rows = yield* page<CustomerRow>("customer", request, request.query, [
          ...(email === undefined ? [] : [sql`lower(email) = lower(${email})`]),
          ...(phone === undefined ? [] : [sql`phone = ${phone}`]),
          ...(metadata === undefined
            ? []
            : [sql`metadata @> ${JSON.stringify(metadata)}::text::jsonb AND metadata <> '{}'`]),
        ])
        return { ...rows, data: yield* renderCustomers(rows.data) }
      }),
  }),
  bind(customerApi.get, { kind: "read", run: (request) => Effect.flatMap(getCustomer(request, request.id), one) }),
  bind(customerApi.update, {
    kind: "write",
    run: (request) => Effect.flatMap(updateCustomer(request, request.id, request.body), one),
  }),
]
