/** Text tables: columns as wide as their content, numbers and amounts aligned right. */

/** A cell: a text, a number or an amount; null is an empty cell. */
export type Cell = string | number | null

const NUMBER = /^-?₦?[\d,]+(\.\d+)?$/

/** Formats `rows` under the column `names`, each column as wide as its longest cell; columns of numbers are aligned right. */
export const table = (names: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<Cell>>): string => {
  const cells = rows.map((row) => row.map((value) => (value === null ? "" : String(value))))
  const widths = names.map((name, n) => Math.max(name.length, ...cells.map((row) => row[n]!.length)))
  const isNumber = names.map((_, n) => cells.length > 0 && cells.every((row) => row[n] === "" || NUMBER.test(row[n]!)))
  const line = (row: ReadonlyArray<string>) =>
    row
      .map((value, n) => (isNumber[n] ? value.padStart(widths[n]!) : value.padEnd(widths[n]!)))
      .join("  ")
      .trimEnd()
  return [line(names), widths.map((width) => "-".repeat(width)).join("  "), ...cells.map(line)].join("\n")
}

/** Joins the non-empty texts with a blank line in between. */
export const paragraphs = (...texts: ReadonlyArray<string | undefined>): string =>
  texts.filter((text) => text !== undefined && text !== "").join("\n\n")
