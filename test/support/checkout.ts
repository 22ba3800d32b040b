/** Calls hosted pages as browsers or programs do, and reads them. */
import { request as http } from "undici"
import { expect } from "vitest"
import type { Answer, Api } from "./api.ts"
import type { TestDatabase } from "./database.ts"
import { advance, createClock, createCustomer, createPlan, data, eventually, subscribe } from "./story.ts"

export const URLS = { success_url: "https://shop.example/welcome", cancel_url: "https://shop.example/plans" } as const
export const START = "2026-01-31T09:00:00Z"
/** Details that a buyer types. */
export const ADA = { name: "Ada Obi", email: "ada@example.com", phone: "0803 123 4567" } as const

export interface Shown {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** A page as a browser requests it. Redirects are not followed. */
const browse = async (
  method: "GET" | "HEAD" | "POST",
  url: string,
  body?: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Shown> => {
  const response = await http(url, { method, headers, ...(body === undefined ? {} : { body }) })
  const text = await response.body.text()
  return { status: response.statusCode, headers: new Headers(response.headers as Record<string, string>), text }
}

const HTML = "text/html,application/xhtml+xml"

export const open = (url: string, method: "GET" | "HEAD" = "GET"): Promise<Shown> =>
  browse(method, url, undefined, { accept: HTML })

type Fields = Readonly<Record<string, unknown>>

/** Submits the page at `url` as a program does. */
export const submit = async (
  url: string,
  fields: Fields | string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> => {
  const body = typeof fields === "string" ? fields : JSON.stringify(fields)
  const shown = await browse("POST", `${url}/complete`, body, {
    accept: "application/json",
    "content-type": "application/json",
    ...headers,
  })
  return { status: shown.status, headers: shown.headers, body: JSON.parse(shown.text) }
}

/** Submits the page at `url` as a browser does. */
export const submitForm = (
  url: string,
  fields: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Shown> =>
  browse("POST", `${url}/complete`, new URLSearchParams(fields).toString(), {
    accept: HTML,
    "content-type": "application/x-www-form-urlencoded",
    ...headers,
  })

export const pay = (url: string, payment_method: string, fields: Fields = {}): Promise<Answer> =>
  submit(url, { payment_method, ...fields })

/** The state that a program sees when it returns to the page. */
export const comeBack = async (url: string): Promise<Answer> => {
  const shown = await browse("GET", `${url}/return`, undefined, { accept: "application/json" })
  return { status: shown.status, headers: shown.headers, body: JSON.parse(shown.text) }
}

/** Status, code, failure code and param of a refusal by a page. */
export const declined = ({ status, body }: Answer) => [status, body.error.code, body.error.failure_code]

/** The value of a hidden field of a page's form. */
export const hidden = ({ text }: Shown, name: string): string => {
  const found = new RegExp(`<input type="hidden" name="${name}" value="([^"]*)"`).exec(text)
  if (found === null) throw new Error(`The page has no field ${name}.`)
  return found[1]!
}

/** A page without its style and its script: the part that depends on the request. */
export const markup = ({ text }: Shown): string => text.replaceAll(/<(style|script)[^>]*>.*?<\/\1>/gs, "")

/** The title of a page, without the business. */
export const heading = ({ text }: Shown): string => /<h1[^>]*>([^<]*)<\/h1>/.exec(text)?.[1] ?? "none"

export const createSession = async (api: Api, fields: Fields = {}) =>
  data(await api.post("/checkout-sessions", { mode: "subscription", ...URLS, ...fields }), 201)

export interface Checkout {
  readonly clock: string
  readonly customer: string
  readonly plan: string
  /** The session's ID. */
  readonly id: string
  readonly url: string
  /** The subscription's. */
  readonly subscription: string
}

/** A session of a customer on a clock at `at`. */
export const checkout = async (
  api: Api,
  {
    plan = {},
    session = {},
    customer = {},
    at = START,
  }: { readonly plan?: object; readonly session?: object; readonly customer?: object; readonly at?: string } = {},
): Promise<Checkout> => {
  const clock = await createClock(api, at)
  const [customerId, planId] = await Promise.all([
    createCustomer(api, { test_clock: clock, ...customer }),
    createPlan(api, { ...plan }),
  ])
  const { id, url, subscription } = await createSession(api, { customer: customerId, plan: planId, ...session })
  return { clock, customer: customerId, plan: planId, id, url, subscription }
}

/** The URL of the newest payment link that a customer was sent. */
export const linkOf = (api: Api, customer: string, template?: string): Promise<string> =>
  eventually(async () => {
    const sent = data(await api.get(`/test/nudge-outbox?customer=${customer}`))
    return sent.find((one: { template: string }) => template === undefined || one.template === template)
      ?.payment_link as string | undefined
  })

/** Sends a reminder manually, about a subscription or none. Returns its payment link. */
export const nudge = async (api: Api, customer: string, subscription?: string): Promise<string> => {
  const about = subscription === undefined ? {} : { subscription }
  const { id } = data(await api.post("/nudges", { customer, template: "payment_failed", ...about }), 201)
  return eventually(async () => {
    const sent = data(await api.get(`/test/nudge-outbox?customer=${customer}`))
    return sent.find((one: { id: string }) => one.id === id)?.payment_link as string | undefined
  })
}

/** A subscription whose second payment was declined at noon of 1 February 2025, with a link to pay it. */
export const overdue = async (
  api: Api,
  code = "insufficient_funds",
  { plan = {}, at = "2025-02-01T12:00:00Z" }: { plan?: object; at?: string } = {},
) => {
  const made = await subscribe(api, "2025-01-01T00:00:00Z", `pm_test_success_then_${code}`, plan)
  data(await api.patch(`/customers/${made.customer}`, { phone: "+2348031234567" }))
  await advance(api, made.clock, at)
  return { ...made, link: await nudge(api, made.customer, made.id) }
}

export interface Money {
  /** Charges of the subscription that succeeded, and are not owed back. */
  readonly paid: number
  readonly refundable: number
  readonly failed: number
  readonly pending: number
  /** The amount that the simulator took, by its own books. */
  readonly taken: number
  /** The maximum number of times that a reference was sent. */
  readonly sent: number
  /** In the books, kobo. */
  readonly cash: number
  readonly owed: number
  readonly refunds: number
}

/** The payments for subscriptions: by the charges, by the rail's own books, and by the ledger. */
export const moneyOf = async (database: TestDatabase, subscriptions: ReadonlyArray<string>): Promise<Money> => {
  const [row] = await database.run(
    (sql) => sql<Money>`
      WITH c AS (SELECT * FROM charge WHERE subscription_id = ANY(${subscriptions}::text[])),
      a AS (SELECT s.* FROM simulator_attempt s JOIN c ON (s.account_id, s.livemode, s.reference) = (c.account_id, c.livemode, c.id)),
      l AS (SELECT l.* FROM ledger_line l JOIN ledger_entry e ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
        WHERE e.subscription_id = ANY(${subscriptions}::text[]))
      SELECT (SELECT count(*) FROM c WHERE status = 'succeeded' AND NOT refund_due) AS paid,
        (SELECT count(*) FROM c WHERE refund_due) AS refundable,
        (SELECT count(*) FROM c WHERE status = 'failed') AS failed,
        (SELECT count(*) FROM c WHERE status = 'pending') AS pending,
        (SELECT count(*) FROM a WHERE outcome = 'succeeded') AS taken,
        (SELECT coalesce(max(attempts), 0) FROM a) AS sent,
        (SELECT coalesce(sum(amount_kobo) FILTER (WHERE ledger_account = 'clearing'), 0)::bigint FROM l) AS cash,
        (SELECT coalesce(sum(amount_kobo) FILTER (WHERE ledger_account = 'receivable'), 0)::bigint FROM l) AS owed,
        (SELECT coalesce(sum(amount_kobo) FILTER (WHERE ledger_account = 'refunds_payable'), 0)::bigint FROM l) AS refunds`,
  )
  return row!
}

/** The answers of a race: the number of each status and code. No answer may be a server error. */
export const tally = (answers: ReadonlyArray<Answer>): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {}
  for (const { status, body } of answers) {
    expect(status, JSON.stringify(body)).toBeLessThan(500)
    const name = status < 300 ? (body.data.status as string) : (body.error.code as string)
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}
