/** Reads the addresses of the rails' APIs, and how long one call may take (decision P3). */
import { Effect } from "effect"
import { SECOND_MS } from "../base/time.ts"
import { ConfigProblem, type RailSettings } from "./Config.ts"
import { integer, isLoopback, url } from "./settings.ts"

/** Flutterwave itself gives up at about 28 s. */
const TIMEOUT_SECONDS = 30
/** A longer call would block one of the few concurrent calls of an account. */
const MAX_TIMEOUT_SECONDS = 120

/** Reads the address that paths are appended to. */
const baseUrl = Effect.fnUntraced(function* (
  name: string,
  production: boolean,
  defaultUrl: string,
): Effect.fn.Return<string, ConfigProblem> {
  const found = yield* url(name, ["http:", "https:"])
  if (found === undefined) return defaultUrl
  const { protocol, hostname, username, password, origin, pathname } = new URL(found)
  if (protocol === "http:" && production)
    return yield* new ConfigProblem({ message: `${name} must begin with https:// when NODE_ENV=production.` })
  if (protocol === "http:" && !isLoopback(hostname)) {
    return yield* new ConfigProblem({
      message: `${name} must begin with https://: plain http is for hosts such as 127.0.0.1 and localhost.`,
    })
  }
  if (username !== "" || password !== "" || /[?#]/.test(found)) {
    return yield* new ConfigProblem({
      message: `${name} must be without a user, a password, a query and a fragment: write ${origin}${pathname}.`,
    })
  }
  return `${origin}${pathname}`.replace(/\/+$/, "")
})

/** Refuses an address with a version: the appended paths have it. */
const refuseVersion = (address: string) =>
  /\/v\d+$/.test(address)
    ? Effect.fail(
        new ConfigProblem({
          message: `FLUTTERWAVE_URL must be without the version: write ${address.replace(/\/v\d+$/, "")}.`,
        }),
      )
    : Effect.succeed(address)

export const readRails = Effect.fnUntraced(function* (
  production: boolean,
): Effect.fn.Return<RailSettings, ConfigProblem> {
  return {
    urls: {
      paystack: yield* baseUrl("PAYSTACK_URL", production, "https://api.paystack.co"),
      flutterwave: yield* Effect.flatMap(
        baseUrl("FLUTTERWAVE_URL", production, "https://api.flutterwave.com"),
        refuseVersion,
      ),
    },
    timeoutMs: (yield* integer("RAIL_TIMEOUT", 1, MAX_TIMEOUT_SECONDS, TIMEOUT_SECONDS)) * SECOND_MS,
  }
})
