/** Tests which rows look dropped: never one that a process has just taken in flight. */
import { Effect } from "effect"
import { expect, it } from "vitest"
import { markInFlight, release, takeDropped } from "../../src/process/lease.ts"
import { useDatabase } from "../support/database.ts"
import { useServices } from "../support/services.ts"

const services = useServices(useDatabase())

const lease = { name: "of a test" }

it("leaves a row that was taken in flight after the statement was requested", async () => {
  const rows = [{ id: "chg_committed_meanwhile" }, { id: "chg_dropped" }]
  // As a request commits a charge between the two.
  const taking = takeDropped(lease, () => Effect.as(markInFlight(lease, [rows[0]!]), structuredClone(rows)))
  const ids = Effect.map(taking, (taken) => taken.map(({ id }) => id))
  expect(await services(ids)).toEqual(["chg_dropped"])
  await services(release(lease, [rows[0]!]))
  // The second has it in flight again. The rows of the first stay in flight too.
  expect(await services(ids)).toEqual([])
})
