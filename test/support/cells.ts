/** Runs two cells on one machine. */
import { Effect, Redacted } from "effect"
import { afterAll, beforeAll, expect } from "vitest"
import { Cell } from "../../src/base/cell.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { useCommandLine } from "./commandLine.ts"
import { useDatabase } from "./database.ts"
import { type Finished, runToEnd, type Server, startServer } from "./server.ts"

export const CELLS = ["00", "7Z"] as const
export type Side = 0 | 1
export const otherSide = (side: Side): Side => (side === 0 ? 1 : 0)

/** Call at the top of a test file: servers of two cells, with these settings. The second has joined the first. */
export const useCells = (env: () => Promise<Readonly<Record<string, string>>> = async () => ({})) => {
  const databases = [useDatabase(), useDatabase()] as const
  const commandLines = [
    useCommandLine(databases[0], { CELL: CELLS[0] }),
    useCommandLine(databases[1], { CELL: CELLS[1] }),
  ] as const
  const servers: Array<Server> = []
  /** Their own addresses, behind any proxy. */
  const origins: Array<string> = []
  const url = (side: Side): string => Redacted.value(databases[side].url())
  beforeAll(async () => {
    const settings = await env()
    for (const side of [0, 1] as const) {
      const server = await startServer(databases[side].url(), { CELL: CELLS[side], ...settings })
      origins.push(server.origin)
      servers.push(server)
    }
    const joined = await commandLines[1]("cell", "join", "--from", url(0), "--json")
    expect(joined.errors).toBe("")
  })
  afterAll(() => Promise.all(servers.map((server) => server.stop())))
  return {
    databases,
    commandLines,
    origins,
    url,
    createMerchant: (businessName: string, side: Side = 0) =>
      databases[side].run(() =>
        Effect.provideService(createAccount({ businessName, liveAccess: "approved" }), Cell, CELLS[side]),
      ),
    /** Runs the mover from a cell to the other one. It dies at that step. */
    move: (account: string, from: Side, diesAt = ""): Promise<Finished> =>
      runToEnd("test/support/mover.ts", [], {
        SOURCE: url(from),
        TARGET: url(otherSide(from)),
        ACCOUNT: account,
        CELL: CELLS[from],
        DIES_AT: diesAt,
      }),
  }
}

export type Merchant = Awaited<ReturnType<ReturnType<typeof useCells>["createMerchant"]>>
