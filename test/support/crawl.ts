/** Visits the pages of the dashboard as a member does: by the links that the pages show. */
import { LEDGER_ACCOUNTS } from "../../src/ledger/chart.ts"
import type { Member } from "./member.ts"

export interface VisitedPage {
  readonly path: string
  /** The path with kinds in place of IDs, days and values, such as `/dashboard/sandbox/plans/{plan}` and `…/plans?status`. */
  readonly pattern: string
  readonly status: number
  readonly text: string
}

/** Documents that are no pages: exports, PDFs of invoices, and an event's JSON. */
const NO_PAGE = /\.(csv|pdf)$|\/export$|\/json$/

const ACCOUNTS: ReadonlyArray<string> = Object.keys(LEDGER_ACCOUNTS)

const kindOf = (part: string): string =>
  (ACCOUNTS.includes(part) ? "{account}" : part)
    .replace(/^([a-z]+)_[0-9a-z]{10,}$/, "{$1}")
    .replace(/^SB-\w+$/, "{SB}")
    .replace(/^\d{4}-\d\d-\d\d$/, "{day}")
    .replace(/^\d{4}-\d\d$/, "{month}")

const patternOf = (path: string): string => {
  const { pathname, searchParams } = new URL(path, "http://localhost")
  const names = [...searchParams.keys()].sort()
  return `${pathname.split("/").map(kindOf).join("/")}${names.length === 0 ? "" : `?${names.join("&")}`}`
}

/** The addresses of the dashboard's pages in a document. */
export const linksIn = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/<a [^>]*href="(\/dashboard[^"#]*)/g)]
    .map(([, href]) => href!.replaceAll("&amp;", "&"))
    .filter((href) => !NO_PAGE.test(href.replace(/\?.*/, "")))

/** Visits the pages that links lead to from the homes of both environments, and a search, up to `examples` of each pattern. */
export const crawl = async (
  member: Pick<Member, "get">,
  examples = 1,
  from: ReadonlyArray<string> = ["/dashboard/sandbox", "/dashboard/live", "/dashboard/sandbox/search?q=ada"],
): Promise<ReadonlyArray<VisitedPage>> => {
  const visited: Array<VisitedPage> = []
  const known = new Set<string>()
  const counts = new Map<string, number>()
  const queue: Array<string> = []
  const add = (paths: ReadonlyArray<string>): void => {
    for (const path of paths) {
      const pattern = patternOf(path)
      const count = counts.get(pattern) ?? 0
      if (known.has(path) || count >= examples) continue
      known.add(path)
      counts.set(pattern, count + 1)
      queue.push(path)
    }
  }
  add(from)
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    const { status, text } = await member.get(path)
    visited.push({ path, pattern: patternOf(path), status, text })
    add(linksIn(text))
  }
  return visited
}
