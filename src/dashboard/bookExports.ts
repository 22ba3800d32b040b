/** Downloads of the books of one account and environment, in the formats of accounting programs. */
import { Effect, Stream } from "effect"
import type { SqlClient } from "effect/sql"
import { problem } from "../base/problem.ts"
import { MINUTE_MS } from "../base/time.ts"
import { Counter } from "../concurrency/Counter.ts"
import type { PublicResponse } from "../http/publicRoutes.ts"
import { FORMATS, type FormatName } from "../ledger/export.ts"
import { readLedger } from "../ledger/reading.ts"
import { memberPage } from "./pages.ts"

/** An export keeps a connection while it is downloaded: of one account, and of all in a process. */
const MAX_OF_ACCOUNT = 1
const MAX_IN_ALL = 3
/** A download that takes longer breaks off: the browser shows that the file is not complete. */
const LONGEST_MS = 10 * MINUTE_MS

const ALL = "all"
const running = new Counter()

const TYPES: Readonly<Record<FormatName, { readonly contentType: string; readonly extension: string }>> = {
  hledger: { contentType: "text/plain; charset=utf-8", extension: "journal" },
  csv: { contentType: "text/csv; charset=utf-8", extension: "csv" },
  sage: { contentType: "text/csv; charset=utf-8", extension: "csv" },
  quickbooks: { contentType: "text/csv; charset=utf-8", extension: "csv" },
  zoho: { contentType: "text/csv; charset=utf-8", extension: "csv" },
}

const isFormat = (text: string): text is FormatName => Object.hasOwn(FORMATS, text)

const exportPage = memberPage(
  "/dashboard/:environment/books/export",
  { right: "finance" },
  {
    GET: Effect.fnUntraced(function* ({ tenant, session, search, environment }) {
      const [format, month] = [search.get("format") ?? "csv", search.get("month") ?? ""]
      if (!isFormat(format) || !(month === "" || /^\d{4}-(0[1-9]|1[0-2])$/.test(month)))
        return yield* problem("parameter_invalid", "Choose a format, and a month such as 2026-01.")
      if (running.of(ALL) >= MAX_IN_ALL || running.of(tenant.account_id) >= MAX_OF_ACCOUNT)
        return yield* problem("too_many_in_flight", "An export is running: wait until it has ended.")
      const context = yield* Effect.context<SqlClient.SqlClient>()
      const writer = FORMATS[format].open(new Map([[tenant.account_id, session.business_name]]))
      const filter = {
        account: tenant.account_id,
        livemode: tenant.livemode,
        month: month === "" ? undefined : month,
      }
      const count = (by: number) =>
        Effect.sync(() => {
          running.add(ALL, by)
          running.add(tenant.account_id, by)
        })
      const texts = readLedger(filter).pipe(
        Stream.map(writer.body),
        Stream.prepend(writer.head === "" ? [] : [writer.head]),
      )
      const stream = Stream.unwrap(
        Effect.as(
          Effect.acquireRelease(count(1), () => count(-1)),
          texts,
        ),
      ).pipe(
        Stream.interruptWhen(
          Effect.andThen(Effect.sleep(LONGEST_MS), Effect.die(new Error("the export took too long"))),
        ),
        Stream.provideContext(context),
        Stream.encodeText,
        Stream.orDie,
      )
      const { contentType, extension } = TYPES[format]
      const response: PublicResponse = {
        contentType,
        body: Buffer.from(""),
        stream,
        fileName: `books-${environment}${month === "" ? "" : `-${month}`}.${extension}`,
        isDownload: true,
      }
      return response
    }),
  },
)

export const bookExportRoutes = [exportPage]
