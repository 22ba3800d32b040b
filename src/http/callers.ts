/** The callers of endpoints. */
import type { KnownKey } from "../security/key/Keys.ts"
import type { Role } from "../security/role/rights.ts"

/** A caller without a key, by its network address. */
export interface PublicCaller {
  readonly kind: "public"
  readonly address: string
}

/** A member of the account, who acts in the dashboard. */
export interface MemberCaller {
  readonly kind: "member"
  readonly id: string
  readonly email: string
  readonly role: Role
}

export type AuthenticatedCaller = KnownKey | PublicCaller | MemberCaller
