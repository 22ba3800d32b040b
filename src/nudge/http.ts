import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { bind } from "../http/Endpoint.ts"
import { mapPage, page } from "../http/lists.ts"
import { type PublicPage, publicPage } from "../http/public.ts"
import { Messengers } from "../messenger/layer.ts"
import { forSms, wholeText } from "../messenger/Messenger.ts"
import { problem } from "../problem.ts"
import { nudgeApi } from "./api.ts"
import { renderNudge } from "./Nudge.ts"
import { createNudge, type Subjects } from "./Nudges.ts"
import { paymentLink } from "./Nudging.ts"
import { applyReceipts } from "./receipts.ts"
import { getNudge, type NudgeRow } from "./rows.ts"

/** A nudge with what its messenger was given last. */
const renderOutbox = (row: NudgeRow) =>
  Effect.map(paymentLink(row.id), (link) => {
    const message = wholeText({ text: row.message.text, link })
    return {
      ...renderNudge(row),
      to: row.contacts[row.channel]!,
      rendered_message: row.channel === "sms" ? forSms(message) : message,
      payment_link: link,
    }
  })

export const nudgeEndpoints = (subjects: Subjects) => [
  bind(nudgeApi.create, {
    kind: "write",
    run: (request) => Effect.map(createNudge(request, request.body, subjects), renderNudge),
  }),
  bind(nudgeApi.list, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { customer, subscription, channel, status } = request.query
        const rows = yield* page<NudgeRow>("nudge", request, request.query, [
          ...(customer === undefined ? [] : [sql`customer_id = ${customer}`]),
          ...(subscription === undefined ? [] : [sql`subscription_id = ${subscription}`]),
          ...(channel === undefined ? [] : [sql`channel = ${channel}`]),
          ...(status === undefined ? [] : [sql`status = ${status}`]),
        ])
        return mapPage(rows, renderNudge)
      }),
  }),
  bind(nudgeApi.get, { kind: "read", run: (request) => Effect.map(getNudge(request, request.id), renderNudge) }),
  bind(nudgeApi.outbox, {
    kind: "list",
    run: (request) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { customer } = request.query
        const rows = yield* page<NudgeRow>("nudge", request, request.query, [
          sql`attempts <> '[]'`,
          ...(customer === undefined ? [] : [sql`customer_id = ${customer}`]),
        ])
        return { ...rows, data: yield* Effect.forEach(rows.data, renderOutbox) }
      }),
  }),
]

const refused = problem("signature_invalid", "This is not signed by the messenger that it is said to come from.")

const plain = (text: string) => ({ contentType: "text/plain", body: Buffer.from(text) })

/**
 * What messengers tell of messages that they took (decision H6), at `/callbacks/{provider}/{account}`. The account is
 * `all` where one number or sender serves every account.
 */
export const nudgeCallbacks: ReadonlyArray<PublicPage> = [
  publicPage(
    /^\/callbacks\/(whatsapp|termii)\/([^/]+)$/,
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
    false,
  ),
]
