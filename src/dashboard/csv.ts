/** Lists as CSV files, for spreadsheets. A cell that a spreadsheet would compute is made text (decision R13). */
import { Effect, Option, Stream } from "effect"
import type { PublicResponse } from "../http/publicRoutes.ts"

export type Cell = string | number | boolean | null

/** The first characters of formulas. */
const FORMULA = /^[=+\-@\t\r]/

const cellText = (cell: Cell): string => {
  if (cell === null) return ""
  if (typeof cell !== "string") return String(cell)
  const safe = FORMULA.test(cell) ? `'${cell}` : cell
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const csvLine = (cells: ReadonlyArray<Cell>): string => `${cells.map(cellText).join(",")}\r\n`

/** A page of a list, and the cursor of the next one; null: there is none. */
export interface CsvPage<Row> {
  readonly rows: ReadonlyArray<Row>
  readonly next: string | null
}

/** The rows of one file: what spreadsheets open with ease. The file says in its last line that the list goes on. */
const MAX_ROWS = 100_000

/** Streams a list page by page, so that a long list takes no memory. If a page fails, the connection breaks and the file is not complete. */
export const csvFile = <Row, E, R>(
  name: string,
  header: ReadonlyArray<string>,
  read: (cursor: string | undefined) => Effect.Effect<CsvPage<Row>, E, R>,
  cells: (row: Row) => ReadonlyArray<Cell>,
) =>
  Effect.map(Effect.context<R>(), (context): PublicResponse => {
    // A mark of UTF-8: some spreadsheets read another encoding without it.
    const start = Stream.make(`\uFEFF${csvLine(header)}`)
    const rows = Stream.paginate({ cursor: undefined as string | undefined, count: 0 }, ({ cursor, count }) =>
      Effect.map(read(cursor), ({ rows, next }) => {
        const total = count + rows.length
        const more = next !== null && total < MAX_ROWS
        const end =
          next !== null && !more ? csvLine([`The list goes on after ${total} rows: export it by its filters`]) : ""
        const text = `${rows.map((row) => csvLine(cells(row))).join("")}${end}`
        return [
          [text],
          more ? Option.some({ cursor: next as string | undefined, count: total }) : Option.none(),
        ] as const
      }),
    )
    const stream = Stream.concat(start, Stream.provideContext(rows, context)).pipe(Stream.encodeText, Stream.orDie)
    return {
      contentType: "text/csv; charset=utf-8",
      body: Buffer.from(""),
      stream,
      fileName: `${name}.csv`,
      isDownload: true,
    }
  })
