/** Reads the newest part of an object's timeline (decision S3), with the pages of the objects that it names. */
import { Effect } from "effect"
import type { Declaration } from "../http/Endpoint.ts"
import type { TransitionView, Upcoming } from "../pages/dashboard/transitions.ts"
import type { Transition } from "../runtime/timelineApi.ts"
import { may } from "../security/role/rights.ts"
import { pathOfObject } from "./objects.ts"
import { call, type Viewer } from "./pages.ts"

/** How many transitions a page shows: more than most objects ever have, and within the size of a page. */
const SHOWN = "25"

export const readTimeline = <Body, Query>(
  viewer: Viewer,
  declaration: Declaration<Body, Query, typeof Transition, true>,
) =>
  Effect.map(call(viewer, declaration, { params: viewer.params, query: { limit: SHOWN } }), ({ data, meta }) => {
    const { environment, session } = viewer
    // The pages of requests and events belong to developers.
    const isDeveloper = may(session.role, "develop", environment === "live")
    const linked = (id: string) => ({ id, href: pathOfObject(id, environment) })
    const transitions = data.map((transition): TransitionView => {
      const { charges, refunds, ledger_entries, nudges, events, cause } = transition
      const made = [...charges, ...refunds, ...ledger_entries, ...nudges].map(linked)
      return {
        transition,
        made: isDeveloper ? [...made, ...events.map(linked)] : made,
        request: isDeveloper ? pathOfObject(cause.request_id, environment) : null,
      }
    })
    return { transitions, upcoming: (meta as { readonly upcoming?: ReadonlyArray<Upcoming> }).upcoming ?? [] }
  })
