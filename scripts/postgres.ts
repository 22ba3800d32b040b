/**
 * A Postgres of one's own for the tests and the benchmarks: nothing of it is left afterwards. POSTGRES_BIN names the folder of another one's
 * programs, such as `/usr/lib/postgresql/15/bin`: of the oldest that is supported, or of one that was built for speed.
 */
import type { Redacted } from "effect"
import { useEmbeddedServer } from "../src/postgres/embedded.ts"
import { temporaryDataDir } from "./dataDir.ts"

export interface TemporaryPostgres {
  readonly url: Redacted.Redacted<string>
  readonly end: () => void
}

export const startTemporaryPostgres = async (
  of: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<TemporaryPostgres> => {
  const dataDir = temporaryDataDir(of)
  const { url, release } = await useEmbeddedServer(dataDir.path, { programs: process.env.POSTGRES_BIN, settings })
  return {
    url,
    end: () => {
      release()
      dataDir.remove()
    },
  }
}
