/** What disables an endpoint: it is gone, or it fails for good (decision I2). */
import { Effect } from "effect"
import { currentTime } from "../../base/wallClock.ts"
import { refOf } from "../../db/tenant.ts"
import { withLockTimeout } from "../../postgres/lockWait.ts"
import { type EndpointRow, endpoints } from "./endpoint.ts"
import { transitionEndpoint } from "./endpoints.ts"

/** The status by which an endpoint says that it is gone. */
export const GONE = 410

export interface Ending {
  /** As it was when it was tried. */
  readonly endpoint: EndpointRow
  readonly type: "endpoint.gone" | "endpoint.failing"
}

/** Whether it is the same still: its owner may have fixed it while tries were under way. */
export const isSame = (one: EndpointRow, other: EndpointRow): boolean =>
  one.url === other.url && one.version === other.version

/** Disables an endpoint that is the same still. */
export const disable = ({ endpoint, type }: Ending) =>
  withLockTimeout(
    Effect.gen(function* () {
      const [row] = yield* endpoints.lock([refOf(endpoint)])
      if (row?.state === "enabled" && isSame(row, endpoint)) yield* transitionEndpoint(row, { type, at: currentTime() })
    }),
  )
