import { Effect } from "effect"
import { Problem, problem } from "../../base/problem.ts"
import { bind, each } from "../../http/Endpoint.ts"
import { equals, listOf, page } from "../../http/lists.ts"
import { publicRoute } from "../../http/publicRoutes.ts"
import { Messengers } from "../messenger/layer.ts"
import { forSms, wholeText } from "../messenger/Messenger.ts"
import { nudgeApi, type OutboxNudge } from "./api.ts"
import { paymentLink } from "./Nudging.ts"
import { type NudgeRow, nudges, renderNudge } from "./nudge.ts"
import { checkCreate, createNudge, missingOfCreate } from "./nudges.ts"
import { applyReceipts } from "./receipts.ts"

/** Renders a nudge with the last message given to its messenger. */
const renderOutbox = (row: NudgeRow) =>
  Effect.map(paymentLink(row), (link): typeof OutboxNudge.Type => {
    const message = wholeText({ text: row.message.text, link })
    return {
      ...renderNudge(row),
      to: row.contacts[row.channel]!,
      rendered_message: row.channel === "sms" ? forSms(message) : message,
      payment_link: link,
    }
  })

export const nudgeEndpoints = [
  bind(nudgeApi.create, {
    kind: "write",
    check: checkCreate,
    missing: missingOfCreate,
    run: each((request) => Effect.map(createNudge(request, request.body, request.caller.isMember), renderNudge)),
  }),
  bind(nudgeApi.list, {
    kind: "read",
    run: (request) => {
      const { customer, subscription, channel, status } = request.query
      return listOf(nudges, request, renderNudge, [
        equals("customer_id", customer),
        equals("subscription_id", subscription),
        equals("channel", channel),
        equals("status", status),
      ])
    },
  }),
  bind(nudgeApi.get, { kind: "read", run: (request) => Effect.map(nudges.get(request, request.id), renderNudge) }),
  bind(nudgeApi.outbox, {
    kind: "read",
    run: Effect.fnUntraced(function* (request) {
      const rows = yield* page(nudges, request, request.query, [
        (sql) => sql`attempts <> '[]'`,
        equals("customer_id", request.query.customer),
      ])
      return { ...rows, data: yield* Effect.forEach(rows.data, renderOutbox) }
    }),
  }),
]

const unsigned = problem("signature_invalid", "The request is not signed by this messenger.")
/** The refusal with 403, the status that Meta documents for a failed handshake. */
const refused = new Problem({ ...unsigned, message: unsigned.message, status: 403 })

const plain = (text: string) => ({ contentType: "text/plain", body: Buffer.from(text) })

/**
 * Receives messengers' receipts (decision H6) at `/callbacks/{provider}/{account}`. The account is `all` if one number or
 * sender serves all accounts.
 */
export const nudgeCallbacks = [
  publicRoute(
    "/callbacks/:provider/:account",
    /^\/callbacks\/(whatsapp|termii)\/([^/]+)\/?$/,
    {
      GET: ({ parts: [provider], search }) =>
        Effect.gen(function* () {
          const challenge = (yield* Messengers).callbacks[provider!]?.handshake(search)
          return challenge === undefined ? yield* refused : plain(challenge)
        }),
      POST: ({ parts: [provider, account], headers, body }) =>
        Effect.gen(function* () {
          const receipts = (yield* Messengers).callbacks[provider!]?.receipts(headers, yield* body)
          if (receipts === undefined) return yield* refused
          yield* applyReceipts(account!, receipts)
          return plain("ok")
        }),
    },
    { limited: false },
  ),
]
