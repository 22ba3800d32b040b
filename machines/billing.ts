/** The lines and the total of a bill (decisions B5, E1). All amounts in kobo. */

export const LINE_TYPES = ["plan", "overage", "proration", "installment", "one_off"] as const

export interface Line {
  readonly type: (typeof LINE_TYPES)[number]
  readonly description: string
  readonly quantity: number
  readonly unit_amount: number
  readonly amount: number
}

/** The units reported for the closed period, and the current price of one (decision E1). */
export interface Usage {
  readonly units: number
  readonly unitKobo: number
}

export const NO_USAGE: Usage = { units: 0, unitKobo: 0 }

/** A smaller total is not charged (decision E2): rails refuse smaller amounts. */
export const MIN_CHARGE_KOBO = 100

/** ₦999,999,999.99: the largest amount everywhere, including products (decision B4). */
export const MAX_AMOUNT_KOBO = 99_999_999_999

/**
 * Computes an amount times `part` / `whole`, rounded half away from zero (decisions B5, E11). Uses BigInt: the product of kobo and
 * milliseconds exceeds the exact integers of a number.
 */
export const shareOf = (kobo: number, part: number, whole: number): number =>
  Math.sign(kobo) * Number((2n * BigInt(Math.abs(kobo)) * BigInt(part) + BigInt(whole)) / (2n * BigInt(whole)))

/** The line for the units of a closed period, in arrears, at most `mostKobo` (decision E23); no line if nothing is due. */
export const overageLines = ({ units, unitKobo }: Usage, mostKobo = MAX_AMOUNT_KOBO): ReadonlyArray<Line> => {
  const amount = Math.min(units * unitKobo, mostKobo)
  return amount === 0 ? [] : [{ type: "overage", description: "Usage", quantity: units, unit_amount: unitKobo, amount }]
}

/**
 * The lines of one period's bill: the plan in advance, minus the credit for time unused because of a pause; the units of the closed period
 * in arrears.
 */
export const periodLines = (priceKobo: number, quantity: number, usage: Usage, creditKobo = 0): ReadonlyArray<Line> => {
  const plan = priceKobo * quantity
  const credit = Math.min(creditKobo, plan)
  const lines: ReadonlyArray<Line> = [
    { type: "plan", description: "Plan", quantity, unit_amount: priceKobo, amount: plan },
    {
      type: "proration",
      description: "Unused time before the pause",
      quantity: 1,
      unit_amount: -credit,
      amount: -credit,
    },
  ]
  // If the rate was raised after the units were reported, the bill must still be small enough to charge (decision E23).
  return [...lines.filter(({ amount }) => amount !== 0), ...overageLines(usage, MAX_AMOUNT_KOBO - plan + credit)]
}

export const totalOf = (lines: ReadonlyArray<{ readonly amount: number }>): number =>
  lines.reduce((sum, { amount }) => sum + amount, 0)

/** The credit of a bill for time unused because of a pause. */
export const creditedIn = (lines: ReadonlyArray<Line>): number =>
  lines.reduce((sum, { type, amount }) => (type === "proration" ? sum - amount : sum), 0)
