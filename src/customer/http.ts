import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type App, bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import {
  detach,
  getPaymentMethod,
  type PaymentMethodRow,
  renderPaymentMethod,
} from "../payment_method/PaymentMethods.ts"
import { customerApi } from "./api.ts"
import {
  type CustomerRow,
  createCustomer,
  getCustomer,
  lockForChange,
  renderCustomers,
  updateCustomer,
} from "./Customers.ts"

const one = (row: CustomerRow) => Effect.map(renderCustomers([row]), ([customer]) => customer!)

type Work = Effect.Effect<void, SqlError.SqlError, App>

/** Those who charge a customer's payment methods, told of changes in the transaction that makes them. */
export interface MethodUsers {
  /** A new default; answers what is left to do after the commit (decision E6). */
  readonly methodSet: (
    customer: CustomerRow,
    methodId: string,
    now: number,
  ) => Effect.Effect<Work, SqlError.SqlError, App>
  /** A method that is about to be removed (decision C4). */
  readonly methodRemoved: (customer: CustomerRow, methodId: string, now: number) => Work
  /** Finishes the charges of a request that a crash cut short. */
  readonly recover: (customerId: string) => Work
}

export const customerEndpoints = (users: MethodUsers) => [
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
    kind: "staged",
    begin: (request) =>
      Effect.gen(function* () {
        const { customer, now, newMethod } = yield* updateCustomer(request, request.id, request.body)
        const after = newMethod === undefined ? Effect.void : yield* users.methodSet(customer, newMethod, now)
        return { id: customer.id, after }
      }),
    resume: (_, id) => users.recover(id),
    reply: (tenant, id) => Effect.flatMap(getCustomer(tenant, id), one),
  }),
  bind(customerApi.listMethods, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const customer = yield* getCustomer(request, request.id)
        const rows = yield* page<PaymentMethodRow>(
          "payment_method",
          request,
          request.query,
          [sql`customer_id = ${customer.id}`],
          "attached_no",
        )
        return mapPage(rows, renderPaymentMethod)
      }),
  }),
  bind(customerApi.deleteMethod, {
    kind: "write",
    run: (request) =>
      Effect.gen(function* () {
        const { customer, now } = yield* lockForChange(request, request.id)
        const methodId = request.params.payment_method!
        yield* getPaymentMethod(customer, methodId)
        yield* users.methodRemoved(customer, methodId, now)
        yield* detach(customer, methodId)
        return { id: methodId, object: "payment_method", livemode: request.livemode, deleted: true }
      }),
  }),
]
