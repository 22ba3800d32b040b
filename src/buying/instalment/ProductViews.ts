/**
 * Counts requests for products' public addresses in memory, and writes the counts every few seconds, so that a request writes nothing. A
 * process that dies loses its unwritten counts: they are not accounting data.
 */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { SECOND_MS } from "../../base/time.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf, staysHere } from "../../db/tenant.ts"
import { every } from "../../process/workers.ts"

const WRITE_EVERY_MS = 2 * SECOND_MS
/** Most products to count between two writes. Views of further products are not counted until then. */
const MAX_COUNTED = 10_000

const VIEWED = { ...REF_COLUMNS, views: "bigint" } as const

export class ProductViews extends Context.Service<
  ProductViews,
  {
    readonly count: (product: Ref) => void
    /** The views that this process has counted and not written yet. */
    readonly waiting: (product: Ref) => number
  }
>()("billing/buying/instalment/ProductViews") {
  static readonly layer = Layer.effect(
    ProductViews,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const counted = new Map<string, Ref & { readonly views: number }>()
      const write = Effect.gen(function* () {
        const rows = [...counted.values()]
        if (rows.length === 0) return
        // Rows that another transaction has locked are written next time: waiting would keep our own row locks longer.
        const written = yield* sql<Ref & { views: number }>`
          UPDATE instalment_product p SET views = p.views + r.views FROM (
            SELECT d.account_id, d.livemode, d.id, r.views FROM ${rowsAsTable(rows, VIEWED)} r
            JOIN instalment_product d ON (d.account_id, d.livemode, d.id) = (r.account_id, r.livemode, r.id)
            WHERE ${staysHere(sql, "d")} ORDER BY d.id FOR NO KEY UPDATE OF d SKIP LOCKED
          ) r
          WHERE (p.account_id, p.livemode, p.id) = (r.account_id, r.livemode, r.id) RETURNING p.id, r.views`
        for (const { id, views } of written) {
          const left = (counted.get(id)?.views ?? 0) - views
          if (left > 0) counted.set(id, { ...counted.get(id)!, views: left })
          else counted.delete(id)
        }
      })
      yield* every("product views", WRITE_EVERY_MS, write)
      return ProductViews.of({
        count: (product) => {
          if (counted.size >= MAX_COUNTED && !counted.has(product.id)) return
          counted.set(product.id, { ...refOf(product), views: (counted.get(product.id)?.views ?? 0) + 1 })
        },
        waiting: ({ id }) => counted.get(id)?.views ?? 0,
      })
    }),
  )
}
