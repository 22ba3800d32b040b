/** What a bill comes to, line by line (decisions B5, E1). All amounts in kobo. */

export interface Line {
  readonly type: "plan" | "overage" | "proration" | "installment" | "one_off"
  readonly description: string
  readonly quantity: number
  readonly unit_amount: number
  readonly amount: number
}

/** Units reported for the closed period, and what one costs now (decision E1). */
export interface Usage {
  readonly units: number
  readonly unitKobo: number
}

export const NO_USAGE: Usage = { units: 0, unitKobo: 0 }

/** A total under this makes no charge (decision E2): rails refuse smaller amounts. */
export const LEAST_CHARGE_KOBO = 100

/** The lines of one period's bill: the plan in advance, the units of the closed period in arrears. */
export const periodLines = (priceKobo: number, quantity: number, usage: Usage): ReadonlyArray<Line> => [
  { type: "plan", description: "Plan", quantity, unit_amount: priceKobo, amount: priceKobo * quantity },
  ...(usage.units > 0 && usage.unitKobo > 0
    ? [
        {
          type: "overage" as const,
          description: "Usage",
          quantity: usage.units,
          unit_amount: usage.unitKobo,
          amount: usage.units * usage.unitKobo,
        },
      ]
    : []),
]

export const totalOf = (lines: ReadonlyArray<Line>): number => lines.reduce((sum, line) => sum + line.amount, 0)
