/** Entries of the books that tests post. */

import { dayOf } from "../../src/base/time.ts"
import type { NewEntry } from "../../src/ledger/ledger.ts"

/** An entry over 500 kobo of 31 January 2025. */
export const bookEntry = (account_id: string, over: Partial<NewEntry> = {}): NewEntry => ({
  account_id,
  livemode: false,
  event: "paid",
  idempotencyKey: `test:${Math.random()}`,
  customerId: "cus_1",
  testClockId: null,
  day: dayOf(Date.UTC(2025, 0, 31)),
  reverses: null,
  lines: [
    { account: "clearing", detail: "simulator", amountKobo: 500 },
    { account: "one_off_revenue", detail: null, amountKobo: -500 },
  ],
  ...over,
})
