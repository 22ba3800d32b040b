import { Effect } from "effect"
import { isId } from "../../base/ids.ts"
import { problem } from "../../base/problem.ts"
import { publicRoute } from "../../http/publicRoutes.ts"
import { RailCredentials } from "../credential/RailCredentials.ts"
import type { OutsideRail } from "../rail/Rail.ts"
import { Rails } from "../rail/Rails.ts"
import { RailCallbacks } from "./RailCallbacks.ts"

const UNSIGNED = problem("signature_invalid", "This is not signed by the rail with the account's credentials.")

const OK = { contentType: "text/plain", body: Buffer.from("ok") }

/**
 * The routes of rails' callbacks, `/callbacks/{rail}/{account}` (decisions P12, P13). Only the reference is used: the rail is
 * then asked about it. If the account has no credentials of the rail, the body is not even received.
 */
export const railCallbacks = [
  publicRoute(
    "/callbacks/:rail/:account",
    /^\/callbacks\/(paystack|flutterwave)\/([^/]+)\/?$/,
    {
      POST: ({ parts, headers, body }) =>
        Effect.gen(function* () {
          const [rail, account] = parts as [OutsideRail, string]
          const credentials = isId("account", account) ? yield* (yield* RailCredentials).ofCallback(account, rail) : []
          if (credentials.length === 0) return yield* UNSIGNED
          const adapter = (yield* Rails).of(rail)
          const request = { headers, body: yield* body }
          if (!credentials.some((one) => adapter.isSigned(request, one))) return yield* UNSIGNED
          const announced = adapter.announcementIn(request.body)
          if (announced !== undefined) yield* (yield* RailCallbacks).note({ account_id: account, rail, ...announced })
          else yield* Effect.annotateLogs(Effect.logInfo("a callback names no reference"), { account, rail })
          return OK
        }),
    },
    { limited: false },
  ),
]
