/** Tests `cli journal show` and `journal prove` (decisions S4, S5). */
import { mkdtempSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { picturesFile } from "../../scripts/machines/pictures.ts"
import { pictureOf } from "../../src/pages/pictures/draw.ts"
import { ACTOR_KINDS } from "../../src/runtime/lifecycle.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useOwnInstance } from "../support/instance.ts"
import { advance, subscribe } from "../support/story.ts"

const { api, database, accountId } = useOwnInstance()
const cli = useCommandLine(database)

const overdue = async () => {
  const { clock, id } = await subscribe(api, "2025-01-31T09:00:00Z", "pm_test_success_then_insufficient_funds")
  await advance(api, clock, "2025-02-28T10:00:00Z")
  return id
}

it("journal show prints the life of an object, and draws its machine with the path taken", async () => {
  const id = await overdue()
  const file = join(mkdtempSync(join(tmpdir(), "journal-")), "life.svg")
  const shown = await cli("journal", "show", id, "--svg", file, "--json")
  const life = JSON.parse(shown.output)
  expect(life).toMatchObject({
    id,
    kind: "subscription",
    account: accountId(),
    livemode: false,
    state: "overdue.retrying",
  })
  expect(life.transitions.map(({ to }: { to: string }) => to)).toEqual([
    "opening",
    "active.current",
    "active.current",
    "active.charging",
    "overdue.retrying",
  ])
  expect((await cli("journal", "show", id)).output).toContain("after periodEnd")
  const svg = readFileSync(file, "utf8")
  expect(svg).toContain('<g data-state="overdue.retrying" aria-current="true"')
  const taken = [...svg.matchAll(/class="arrow taken" data-from="([^"]*)" data-to="([^"]*)"/g)]
  expect(taken.map(([, from, to]) => `${from} → ${to}`).sort()).toEqual([
    "active.charging → overdue",
    "active.current → active.charging",
    "created → opening",
    "opening → active",
  ])
  expect((await cli("journal", "show", "sub_none")).code).toBe(1)
})

it("journal prove finds what today's machines would do differently, in kobo", async () => {
  const id = await overdue()
  const prove = async (...args: ReadonlyArray<string>) => {
    const { code, output } = await cli("journal", "prove", "--json", ...args)
    return { code, ...JSON.parse(output) }
  }
  const before = await prove()
  expect(before).toMatchObject({ code: 0, differ: 0, amount_difference: 0, first: [] })
  expect(before.same).toBe(before.replayed)
  // As if the machine had charged less then, and had told nobody.
  await database.run((sql) => sql`UPDATE charge SET amount_kobo = amount_kobo - 100 WHERE subscription_id = ${id}`)
  await database.run((sql) => sql`UPDATE lifecycle_journal SET effects = '[]' WHERE actor_id = ${id} AND version = 1`)
  const after = await prove("--account", accountId())
  expect(after).toMatchObject({
    code: 1,
    differ: 1,
    same: after.replayed - 1,
    amount_difference: 200,
    first: [
      {
        id,
        version: 1,
        event: { type: "create" },
        recorded: { to: "opening", effects: [], amount: 499_900 },
        now: { to: "opening", effects: ["attemptCharge"], amount: 500_000 },
      },
    ],
  })
  expect((await prove("--limit", "0")).replayed).toBe(0)
  expect((await prove("--account", "acct_none")).replayed).toBe(0)
})

it("the pictures of all machines are those of today's machines", async () => {
  for (const kind of ACTOR_KINDS) expect(pictureOf(kind), kind).toBeDefined()
  const kept = readFileSync(join(import.meta.dirname, "../../src/pages/pictures/layouts.json"), "utf8")
  // Mend it with `npm run machines`.
  expect(kept).toBe(await picturesFile())
})
