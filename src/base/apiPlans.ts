/** The API plans that accounts are on; src/merchants/usage/allowances.ts says what each includes. */

export const API_PLANS = ["starter", "growth", "scale", "enterprise"] as const
export type ApiPlan = (typeof API_PLANS)[number]
