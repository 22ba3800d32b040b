/** Tables for people, as text: columns as wide as what is in them, numbers and amounts to the right. */

/** A cell that is to be read as a number or an amount, and null where there is nothing to show. */
export type Cell = string | number | null

const NUMBER = /^-?₦?[\d,]+(\.\d+)?$/

/** `names` over `rows`, each as wide as its longest cell; a column of numbers is set to the right. */
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

/** Texts that are not empty, with a blank line between them. */
export const paragraphs = (...texts: ReadonlyArray<string | undefined>): string =>
  texts.filter((text) => text !== undefined && text !== "").join("\n\n")
