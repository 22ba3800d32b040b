import { Effect } from "effect"
import { bind, each } from "../../http/Endpoint.ts"
import { equals, listOf } from "../../http/lists.ts"
import { timelineHandler } from "../../runtime/timeline.ts"
import { checkoutApi } from "./api.ts"
import { CheckoutLinks } from "./CheckoutLinks.ts"
import { renderSession, type SessionRow, sessions } from "./checkout.ts"
import { checkCreate, createSession, missingOfCreate } from "./checkouts.ts"
import { expireSession } from "./closing.ts"

/** What its timers do. */
const MEANS = { expiry: "The session expires." }

const render = (row: SessionRow) => Effect.map(CheckoutLinks, (links) => renderSession(row, links.url(row)))

export const checkoutEndpoints = [
  bind(checkoutApi.create, {
    kind: "write",
    check: checkCreate,
    missing: missingOfCreate,
    run: each((request) => Effect.flatMap(createSession(request, request.body), render)),
  }),
  bind(checkoutApi.list, {
    kind: "read",
    run: (request) =>
      Effect.flatMap(CheckoutLinks, (links) =>
        listOf(sessions, request, (row) => renderSession(row, links.url(row)), [
          equals("customer_id", request.query.customer),
          equals("status", request.query.status),
        ]),
      ),
  }),
  bind(checkoutApi.get, {
    kind: "read",
    run: (request) => Effect.flatMap(sessions.get(request, request.id), render),
  }),
  bind(checkoutApi.timeline, timelineHandler(sessions.get, MEANS)),
  bind(checkoutApi.expire, {
    kind: "write",
    run: each((request) => Effect.flatMap(expireSession(request, request.id), render)),
  }),
]
