/** The business types of providers. A provider is an account. */

export const VERTICALS = [
  "generic",
  "estate_management",
  "meal_plan",
  "gym_fitness",
  "insurance",
  "waste",
  "fuel",
  "laundry",
  "ecommerce",
] as const
export type Vertical = (typeof VERTICALS)[number]
