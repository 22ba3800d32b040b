/** Disables endpoints that are gone or keep failing (decision I2). */
import { Effect } from "effect"
import { currentTime } from "../../base/wallClock.ts"
import { refOf, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { activity, recordActivity, SYSTEM } from "../../http/activity.ts"
import { withLockTimeout } from "../../postgres/lockWait.ts"
import { type EndpointRow, endpoints } from "./endpoint.ts"
import { transitionEndpoint } from "./endpoints.ts"

/** The response status of an endpoint that is gone. */
export const GONE = 410

export interface Ending {
  /** The endpoint's row at the start of the try. */
  readonly endpoint: EndpointRow
  readonly type: "endpoint.gone" | "endpoint.failing"
}

/** Whether the endpoint is unchanged: its owner may have fixed it during the tries. */
export const isSame = (one: EndpointRow, other: EndpointRow): boolean =>
  one.url === other.url && one.version === other.version

/** Disables an endpoint, unless it was changed since the try. */
export const disable = ({ endpoint, type }: Ending) =>
  withLockTimeout(
    Effect.gen(function* () {
      const [row] = yield* endpoints.lock([refOf(endpoint)])
      if (row?.state !== "enabled" || !isSame(row, endpoint)) return
      yield* transitionEndpoint(row, { type, at: currentTime() })
      const object = { kind: "webhook_endpoint", id: row.id }
      recordActivity(yield* unitOfWork, [activity(tenantOf(row), SYSTEM, "webhook_endpoint.disable", object)])
    }),
  )
