/** Finds actors and reads their whole timelines, for `journal show`. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { livesHere, type Tenant } from "../db/tenant.ts"
import type { PageQuery } from "../http/lists.ts"
import type { ActorKind } from "../runtime/lifecycle.ts"
import { timelineOf } from "../runtime/timeline.ts"
import type { Transition } from "../runtime/timelineApi.ts"

/** An actor that has a journal, wherever it is. */
export interface FoundActor extends Tenant {
  readonly id: string
  readonly kind: ActorKind
  readonly state: string
  readonly test_clock_id: string | null
}

/**
 * Finds an actor by ID in all accounts of this cell, or in one. Codes of instalment plans are unique within their account only, so there may be
 * several.
 */
export const findActors = Effect.fnUntraced(function* (id: string, account: string | undefined) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<Tenant & { readonly actor_kind: ActorKind }>`
    SELECT a.id AS account_id, l.livemode, j.actor_kind FROM account a CROSS JOIN unnest(ARRAY[false, true]) l (livemode) CROSS JOIN LATERAL (
      SELECT actor_kind FROM lifecycle_journal WHERE (account_id, livemode, actor_id) = (a.id, l.livemode, ${id}) LIMIT 1
    ) j WHERE ${account === undefined ? livesHere(sql, "a", "id") : sql`a.id = ${account}`}`
  return yield* Effect.forEach(found, ({ account_id, livemode, actor_kind }) =>
    Effect.map(
      sql<{ state: string; test_clock_id: string | null }>`
        SELECT state, to_jsonb(a)->>'test_clock_id' AS test_clock_id FROM ${sql(actor_kind)} a
        WHERE (account_id, livemode, id) = (${account_id}, ${livemode}, ${id})`,
      ([row]): FoundActor => ({
        account_id,
        livemode,
        id,
        kind: actor_kind,
        state: row?.state ?? "gone",
        test_clock_id: row?.test_clock_id ?? null,
      }),
    ),
  )
})

/** Reads an actor's whole timeline, oldest first. */
export const wholeTimeline = Effect.fnUntraced(function* (actor: FoundActor) {
  const pages: Array<ReadonlyArray<typeof Transition.Type>> = []
  let starting_after: string | undefined
  for (;;) {
    const query: PageQuery = { limit: "100", ...(starting_after === undefined ? {} : { starting_after }) }
    const { data, hasMore } = yield* timelineOf(actor, { ...actor, means: {} }, query)
    pages.push(data)
    starting_after = data.at(-1)?.id
    if (!hasMore || starting_after === undefined) return pages.flat().reverse()
  }
})
