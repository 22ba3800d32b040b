/**
 * A temporary Postgres for the tests and the benchmarks, removed afterwards. POSTGRES_BIN is the folder with the programs of another Postgres,
 * such as `/usr/lib/postgresql/15/bin`: the oldest supported version, or a build for speed.
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
