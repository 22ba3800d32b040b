/** Tests the words for what happened: every event of a machine whose timeline is shown has some. */
import { expect, it } from "vitest"
import { happened } from "../../src/pages/dashboard/happened.ts"
import { pictureOf } from "../../src/pages/pictures/draw.ts"

it.each(["subscription", "charge", "checkout_session", "instalment_plan"])("%s", (kind) => {
  const triggers = new Set(pictureOf(kind)!.arrows.flatMap((arrow) => arrow.triggers))
  // A state that decides at once: its transition is part of the one before.
  triggers.delete("immediately")
  for (const trigger of triggers) expect(happened(trigger)).not.toBe(`Event ${trigger}`)
})
