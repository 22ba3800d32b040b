import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { renderEvent } from "../event/Events.ts"
import { type App, bind } from "../http/Endpoint.ts"
import { sandboxApi } from "./api.ts"
import { requestReset } from "./reset.ts"
import { type Found, triggerEvent } from "./trigger.ts"

/** Finds an object of any kind by its ID. */
export type Finder = (tenant: Tenant, id: string) => Effect.Effect<Found | undefined, SqlError.SqlError, App>

export const sandboxEndpoints = (find: Finder) => [
  bind(sandboxApi.trigger, {
    kind: "write",
    run: (request) =>
      Effect.gen(function* () {
        const { object } = request.body
        const found = object === undefined ? undefined : yield* find(request, object)
        return renderEvent(yield* triggerEvent(request, request.body, found))
      }),
  }),
  bind(sandboxApi.reset, { kind: "write", run: (request) => requestReset(request) }),
]
