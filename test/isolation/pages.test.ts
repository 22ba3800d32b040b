/** Tests that a page is bounded in bytes for any objects, so that no request uses more of the service's memory. */
import { Effect } from "effect"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { Json } from "../../src/base/json.ts"
import { pageOf } from "../../src/http/lists.ts"
import { MAX_PAGE_BYTES, renderPage } from "../../src/http/renderPage.ts"
import { useOwnInstance } from "../support/instance.ts"
import { createPlan, data } from "../support/story.ts"

const { api, database, accountId } = useOwnInstance()

/** The bytes of a page beside its objects. */
const ENVELOPE = 200
const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

describe("a page of any objects", () => {
  /** Objects with an ID and a size, newest first, and the size of each one's expansion. */
  const sizes = fc.oneof(
    fc.nat(2_000),
    fc.integer({ min: 60_000, max: 400_000 }),
    fc.integer({ min: MAX_PAGE_BYTES - 100, max: MAX_PAGE_BYTES + 100 }),
  )
  const listed = fc.array(fc.tuple(sizes, sizes), { maxLength: 30 })

  const read = (objects: ReadonlyArray<Json & { readonly id: string }>, query: Readonly<Record<string, string>>) =>
    Effect.runPromise(
      Effect.gen(function* () {
        const expand = (some: ReadonlyArray<Json>) =>
          Effect.succeed(some.map(({ expanded, ...object }) => ({ ...object, customer: "é".repeat(Number(expanded)) })))
        return JSON.parse(yield* renderPage(yield* pageOf(objects, query), expand))
      }),
    )

  it("has as many as fit and at least one; page by page each appears once, both ways", async () => {
    await fc.assert(
      fc.asyncProperty(listed, fc.integer({ min: 1, max: 12 }), fc.boolean(), async (drawn, limit, backwards) => {
        const objects = drawn.map(([plain, expanded], index) => ({
          id: `obj_${index}`,
          text: "x".repeat(plain >> 1),
          expanded: expanded >> 2,
        }))
        const oldest = objects.at(-1)?.id
        const seen: Array<string> = []
        let cursor: Readonly<Record<string, string>> =
          backwards && oldest !== undefined ? { ending_before: oldest } : {}
        for (;;) {
          const { data: page, meta } = await read(objects, { limit: String(limit), ...cursor })
          const ids: ReadonlyArray<string> = page.map(({ id }: Json) => id)
          expect(ids.length).toBeLessThanOrEqual(limit)
          if (ids.length > 1) expect(bytesOf(page)).toBeLessThanOrEqual(MAX_PAGE_BYTES + 1)
          expect(meta).toEqual({ has_more: meta.has_more, next_cursor: meta.has_more ? ids.at(-1) : null, limit })
          seen.push(...(backwards ? ids.toReversed() : ids))
          if (!meta.has_more) break
          expect(ids.length).toBeGreaterThan(0)
          cursor = backwards ? { ending_before: ids[0]! } : { starting_after: ids.at(-1)! }
          if (ids.length === limit) continue
          // The next one would have made the page too large.
          const next = objects[objects.findIndex(({ id }) => id === seen.at(-1)) + (backwards ? -1 : 1)]!
          const [whole] = (await read([next], {})).data
          expect(bytesOf(page) + bytesOf(whole)).toBeGreaterThan(MAX_PAGE_BYTES)
        }
        const all = objects.map(({ id }) => id)
        expect(seen).toEqual(backwards ? all.slice(0, -1).toReversed() : all)
      }),
      { numRuns: 60 },
    )
  })
})

describe("a page over HTTP", () => {
  const FAT = 70
  const idOf = (prefix: string, n: number) => `${prefix}_${String(n).padStart(26, "0")}`

  /** Customers with the maximum of metadata, each with a subscription. */
  const make = async () => {
    const plan = await createPlan(api)
    const metadata = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`key_${n}`, "😀".repeat(500)]))
    await database.run((sql) =>
      Effect.gen(function* () {
        yield* sql`
          INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
          SELECT ${accountId()}, false, 'cus_' || lpad(n::text, 26, '0'), 'Fat', ${JSON.stringify(metadata)}::text::jsonb, now() FROM generate_series(1, ${FAT}::int) n`
        yield* sql`
          INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, state, status, version, billing_cycle, price_kobo, quantity, start_at, anchor_at, period_no,
            period_start_at, period_end_at, period_quantity, cancel_at_period_end, bills_made, cancelled_at, metadata, created_at)
          SELECT account_id, livemode, replace(id, 'cus', 'sub'), id, ${plan}, 'cancelled', 'cancelled', 1, 'monthly', 5000, 1, at, at, 0, at, at + interval '1 month', 1, false, 1, at, '{}', at
          FROM (SELECT account_id, livemode, id, '2025-01-01'::timestamptz AS at FROM customer WHERE name = 'Fat' AND account_id = ${accountId()}) c`
      }),
    )
  }

  it("ends before it would be too large, with expanded objects, and continues from there", async () => {
    await make()
    for (const [path, prefix] of [
      ["/customers", "cus"],
      ["/customers?metadata[key_7]=" + encodeURIComponent("😀".repeat(500)), "cus"],
      ["/subscriptions?expand[]=customer", "sub"],
    ] as const) {
      const ids = Array.from({ length: FAT }, (_, n) => idOf(prefix, n + 1)).toReversed()
      const first = await api.get(`${path}${path.includes("?") ? "&" : "?"}limit=100`)
      const shown = data(first).map(({ id }: { id: string }) => id)
      expect([shown, first.body.meta]).toEqual([
        ids.slice(0, shown.length),
        { has_more: true, next_cursor: shown.at(-1), limit: 100 },
      ])
      expect(bytesOf(first.body)).toBeLessThanOrEqual(MAX_PAGE_BYTES + ENVELOPE)
      expect(bytesOf(first.body)).toBeGreaterThan(MAX_PAGE_BYTES - 50_000)
      expect((await api.all(path)).map(({ id }) => id)).toEqual(ids)
      const before = await api.get(`${path}${path.includes("?") ? "&" : "?"}limit=100&ending_before=${ids.at(-1)}`)
      const nearest = data(before).map(({ id }: { id: string }) => id)
      expect(nearest).toEqual(ids.slice(-1 - nearest.length, -1))
      expect([nearest.length, before.body.meta.has_more]).toEqual([shown.length, true])
    }
  })
})
