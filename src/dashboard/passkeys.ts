/** Passkeys: adding one on the member's page, and signing in with one. The script (src/pages/dashboard/dashboard.js) asks here. */
import { isIP } from "node:net"
import { Effect } from "effect"
import { problem } from "../base/problem.ts"
import { Origin } from "../http/Origin.ts"
import type { PublicRequest } from "../http/publicRoutes.ts"
import {
  addPasskey,
  finishPasskey,
  registrationOptions,
  removePasskey,
  type Site,
  signInOptions,
} from "../merchants/member/passkeys.ts"
import { isToken } from "../merchants/member/tokens.ts"
import { readCookie } from "./cookies.ts"
import { formTokenOf, readForm } from "./forms.ts"
import { goTo, jsonAnswer, localPath, memberPage, visitorPage, withNotice } from "./pages.ts"
import { enter } from "./signIn.ts"

/**
 * The site of a request. Passkeys belong to host names, not to network addresses. On a development machine, the same service is reached as
 * localhost and as 127.0.0.1. Undefined: there can be no passkeys.
 */
export const siteOf = (request: Pick<PublicRequest, "headers">, origin: string): Site | undefined => {
  const called = `http://${request.headers.host ?? ""}`
  const isLocal = origin.startsWith("http:") && URL.canParse(called) && new URL(called).hostname === "localhost"
  const { hostname, origin: own } = new URL(isLocal ? called : origin)
  return isIP(hostname) !== 0 || hostname.startsWith("[") ? undefined : { id: hostname, origin: own }
}

const NO_HOST_NAME = problem("member_state_invalid", "Passkeys need a host name: open the dashboard at localhost.")

const needSite = (request: PublicRequest, origin: string) => {
  const site = siteOf(request, origin)
  return site === undefined ? Effect.fail(NO_HOST_NAME) : Effect.succeed(site)
}

const register = memberPage(
  "/dashboard/me/passkeys/options",
  { right: "see", isSensitive: true },
  {
    POST: Effect.fnUntraced(function* ({ cookie, origin, session, request }) {
      const site = yield* needSite(request, origin)
      const visitor = { visitor: cookie, network: request.address }
      return jsonAnswer(yield* registrationOptions(visitor, session.email, site))
    }),
  },
)

const add = memberPage(
  "/dashboard/me/passkeys",
  { right: "see", isSensitive: true },
  {
    POST: Effect.fnUntraced(function* ({ cookie, origin, session, request }, form) {
      const site = yield* needSite(request, origin)
      yield* addPasskey(cookie, session.email, site, form.get("name"), form.json.credential)
      return jsonAnswer({ to: withNotice("/dashboard/me", "passkey_added") })
    }),
  },
)

const remove = memberPage(
  "/dashboard/me/passkeys/:id/remove",
  { right: "see" },
  {
    POST: ({ session, params }) =>
      Effect.as(removePasskey(session.email, params.id!), goTo(withNotice("/dashboard/me", "passkey_removed"))),
  },
)

/** Reads the JSON that the script sends from a sign-in page, with the browser's cookie. */
const readVisitor = Effect.fnUntraced(function* (request: PublicRequest) {
  const { url: origin } = yield* Origin
  const visitor = readCookie(request.headers, "visitor", origin) ?? ""
  if (!isToken(visitor)) return yield* problem("form_invalid", "Load the page again.")
  const form = yield* readForm(request, origin, formTokenOf(visitor))
  return { visitor, form, site: yield* needSite(request, origin) }
})

const options = visitorPage("/dashboard/sign-in/passkey/options", {
  POST: Effect.fnUntraced(function* (request) {
    const { visitor, site } = yield* readVisitor(request)
    return jsonAnswer(yield* signInOptions({ visitor, network: request.address }, site))
  }),
})

const signIn = visitorPage("/dashboard/sign-in/passkey", {
  POST: Effect.fnUntraced(function* (request) {
    const { visitor, form, site } = yield* readVisitor(request)
    const email = yield* finishPasskey(visitor, site, form.json.credential)
    const entered = yield* enter(request, email, "passkey")
    if (entered === undefined) return yield* problem("sign_in_invalid", "You belong to no account any more.")
    return jsonAnswer({ to: localPath(form.get("next")) }, entered.header)
  }),
})

export const passkeyRoutes = [register, add, remove, options, signIn]
