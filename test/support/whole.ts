/** Checks the invariants after any history: balanced books, journals that replay, no reference sent twice. */
import { afterAll, expect } from "vitest"
import { replayables } from "../../src/app/lifecycles.ts"
import { checkLedger } from "../../src/ledger/ledger.ts"
import { proveJournal, replayJournal } from "../../src/runtime/replay.ts"
import type { TestDatabase } from "./database.ts"

/** Balanced books, and journals that replay to the current rows, with the effects and the amounts that were recorded. */
export const expectSound = async (database: Pick<TestDatabase, "run">) => {
  expect(await database.run(() => checkLedger())).toMatchObject({ ok: true, problems: [] })
  expect((await database.run(() => replayJournal(replayables, []))).differing).toEqual([])
  expect((await database.run(() => proveJournal(replayables))).first).toEqual([])
}

export const expectWhole = async (database: TestDatabase) => {
  const twice = await database.run((sql) => sql`SELECT reference FROM simulator_attempt WHERE attempts > 1`)
  expect(twice).toEqual([])
  await expectSound(database)
}

/** Call at the top of a test file: checked after all of its stories. */
export const useWhole = (database: TestDatabase) => {
  afterAll(() => expectWhole(database))
}
