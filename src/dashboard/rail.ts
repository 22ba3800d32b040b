/** The page of the rail of live payments: owners and admins switch it and replace its credentials, which are never shown (decision R2). */
import { Effect } from "effect"
import { noSuch } from "../base/problem.ts"
import { LiveSimulation } from "../buying/payment_page/context.ts"
import { findAccount } from "../merchants/account/accounts.ts"
import { railMain } from "../pages/dashboard/rail.ts"
import { credentialDates, replaceCredentials, switchRail } from "../rails/credential/credentials.ts"
import { credentialsOf } from "../rails/credential/reading.ts"
import { OUTSIDE_RAILS, type OutsideRail, RAIL_CREDENTIALS, RAILS } from "../rails/rail/Rail.ts"
import { changing, readingAccount } from "./account.ts"
import { goTo, memberPage, show, type Viewer, withNotice } from "./pages.ts"

interface Refused {
  readonly refusal?: string
  readonly refused?: { readonly rail: OutsideRail; readonly wrong: ReadonlyMap<string, string> }
}

const RAIL_PAGE = { right: "secrets", isSensitive: true } as const

const showRail = Effect.fnUntraced(function* (viewer: Viewer, { refusal, refused }: Refused = {}, status = 200) {
  const { account_id: id } = viewer.session
  const { allowed } = yield* LiveSimulation
  const [account, stored] = yield* readingAccount(viewer, Effect.all([findAccount(id), credentialDates(id)]))
  const view = {
    rail: account!.rail,
    rails: RAILS.filter((rail) => rail !== "simulator" || allowed),
    stored,
    refusal: refusal ?? null,
    refused: refused ?? null,
    formToken: viewer.formToken,
  }
  return show(viewer, "Payment rail", railMain(view), status)
})

const rail = memberPage("/dashboard/account/rail", RAIL_PAGE, {
  GET: (viewer) => showRail(viewer),
  POST: Effect.fnUntraced(function* (viewer, form) {
    const { account_id: id } = viewer.session
    const { allowed } = yield* LiveSimulation
    const wanted = RAILS.find((one) => one === form.get("rail"))
    if (wanted === undefined) return yield* showRail(viewer, { refusal: "Choose a rail." }, 400)
    if (wanted === "simulator" && !allowed)
      return yield* showRail(viewer, { refusal: "The simulator takes no real payments." }, 422)
    const stored = yield* readingAccount(viewer, credentialDates(id))
    if (wanted !== "simulator" && !stored.has(wanted))
      return yield* showRail(viewer, { refusal: `Store the credentials of ${wanted} first.` }, 422)
    yield* changing(viewer, "account.switch_rail", () => ({ kind: "account", id }), switchRail(id, wanted))
    return goTo(withNotice("/dashboard/account/rail", "rail_switched"))
  }),
})

const credentials = memberPage("/dashboard/account/rail/:rail", RAIL_PAGE, {
  POST: Effect.fnUntraced(function* (viewer, form) {
    const { session, params } = viewer
    const { account_id: id } = session
    const { allowed } = yield* LiveSimulation
    const outside = OUTSIDE_RAILS.find((one) => one === params.rail)
    if (outside === undefined) return yield* noSuch("rail", params.rail!)
    const fields = new Map(RAIL_CREDENTIALS[outside].map((name) => [name, form.get(`${outside}.${name}`)]))
    const read = credentialsOf(fields, outside, !allowed)
    if ("wrong" in read) {
      const { name, message } = read.wrong
      return yield* showRail(viewer, { refused: { rail: outside, wrong: new Map([[name, message]]) } }, 400)
    }
    const replacing = replaceCredentials(id, outside, read.credentials)
    yield* changing(viewer, "account.replace_credentials", () => ({ kind: "account", id }), replacing)
    return goTo(withNotice("/dashboard/account/rail", "rail_switched"))
  }),
})

export const railRoutes = [rail, credentials]
