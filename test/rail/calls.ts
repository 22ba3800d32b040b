/** All calls of a rail, for a payment of ₦1.00. */
import { Redacted } from "effect"
import type { Rail } from "../../src/rails/rail/Rail.ts"
import { credentialsOf } from "../support/railServer.ts"

export const charge = (rail: Rail) =>
  rail.charge(
    { reference: "chg_1", amountKobo: 100, token: Redacted.make("AUTH_1a2b"), email: "a@b.example", metadata: {} },
    credentialsOf(rail.name),
  )
export const CALLS = {
  charge,
  openPage: (rail: Rail) =>
    rail.openPage(
      {
        reference: "chg_1",
        amountKobo: 100,
        email: "a@b.example",
        name: "A",
        phone: null,
        returnUrl: "https://x/return",
        description: "x",
        metadata: {},
      },
      credentialsOf(rail.name),
    ),
  ask: (rail: Rail) => rail.ask("chg_1", credentialsOf(rail.name)),
  refund: (rail: Rail) => rail.refund({ reference: "chg_1", railId: "1", amountKobo: 100 }, credentialsOf(rail.name)),
  askRefund: (rail: Rail) => rail.askRefund("1", credentialsOf(rail.name)),
} as const
