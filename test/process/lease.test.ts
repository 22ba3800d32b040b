/** Whose row it is that looks dropped: nobody's who has just taken it in hand. */
import { Effect } from "effect"
import { expect, it } from "vitest"
import { hold, release, takeDropped } from "../../src/process/lease.ts"
import { useDatabase } from "../support/database.ts"
import { useServices } from "../support/services.ts"

const services = useServices(useDatabase())

const lease = { name: "of a test" }

it("leaves what was taken in hand after the statement was asked for", async () => {
  const rows = [{ id: "chg_committed_meanwhile" }, { id: "chg_dropped" }]
  // As a request commits a charge between the two.
  const taking = takeDropped(lease, () => Effect.as(hold(lease, [rows[0]!]), structuredClone(rows)))
  const ids = Effect.map(taking, (taken) => taken.map(({ id }) => id))
  expect(await services(ids)).toEqual(["chg_dropped"])
  await services(release(lease, [rows[0]!]))
  // Held again by the second one; what the first holds stays held, too.
  expect(await services(ids)).toEqual([])
})
