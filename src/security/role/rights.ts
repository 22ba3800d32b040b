/** The roles of members and their rights (decision R2): the one table for pages, actions and calls of the API. */

export const ROLES = ["owner", "admin", "developer", "finance", "support"] as const
export type Role = (typeof ROLES)[number]

/** The rights, with what each covers. */
export const RIGHTS = {
  see: "objects of both environments",
  operate: "creating and changing plans, customers, subscriptions, charges, nudges and checkout sessions",
  refund: "refunds",
  develop: "keys, webhooks, events, requests, test clocks and the reset of the sandbox",
  secrets: "live secret keys and the credentials of rails",
  finance: "books, settlements, closing of months, exports and invoices",
  account: "the profile, the team, live access and the business type",
} as const

export type Right = keyof typeof RIGHTS

/** The rights of a role that do not depend on the environment. `operate`: everywhere, or only in the sandbox. */
const RIGHTS_OF: Readonly<Record<Role, ReadonlySet<Right>>> = {
  owner: new Set(["see", "operate", "refund", "develop", "secrets", "finance", "account"]),
  admin: new Set(["see", "operate", "refund", "develop", "secrets", "finance", "account"]),
  developer: new Set(["see", "develop"]),
  finance: new Set(["see", "refund", "finance"]),
  support: new Set(["see", "operate"]),
}

/** Whether a role has a right in an environment. Developers operate in the sandbox only. */
export const may = (role: Role, right: Right, livemode: boolean): boolean =>
  RIGHTS_OF[role].has(right) || (role === "developer" && right === "operate" && !livemode)

/** What a member with each role does, in words for an invitation. */
export const ROLE_SUMMARIES: Readonly<Record<Role, string>> = {
  owner: "Everything, and may change owners",
  admin: "Everything except changing owners",
  developer: "Keys, webhooks, requests and test clocks; changes objects in the sandbox only",
  finance: "Books, settlements, invoices, exports and refunds; sees all objects",
  support: "Plans, customers, subscriptions, charges and reminders",
}
