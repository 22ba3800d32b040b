/** Whose a row is. Every tenant table begins with these two columns, and every statement filters on them. */

export interface Tenant {
  readonly account_id: string
  readonly livemode: boolean
}

/** A row of a tenant table by its key. */
export interface Ref extends Tenant {
  readonly id: string
}

export const refOf = ({ account_id, livemode, id }: Ref): Ref => ({ account_id, livemode, id })

/** The order in which rows are locked everywhere, so that no two transactions wait for each other. */
export const byId = (a: Ref, b: Ref): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
