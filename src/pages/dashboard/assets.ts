/** The dashboard's style and script: two files, named by their content, so that browsers keep them. */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { STYLE, small } from "../headers.ts"
import { type Html, ownMarkup } from "../html.ts"

export interface Asset {
  readonly path: string
  readonly contentType: string
  readonly body: Buffer
}

const ownFile = (name: string): string => small(readFileSync(join(import.meta.dirname, name), "utf8"))

const library = createRequire(import.meta.url)
const libraryFile = (name: string): string => readFileSync(library.resolve(`htmx.org/dist/${name}`), "utf8")

const asset = (name: string, contentType: string, text: string): Asset => {
  const version = createHash("sha256").update(text).digest("base64url").slice(0, 12)
  const [base, extension] = name.split(".")
  return { path: `/dashboard/assets/${base}-${version}.${extension}`, contentType, body: Buffer.from(text) }
}

/** The style of all pages comes first, then that of the dashboard, then those of single areas. */
const STYLES = ["dashboard.css", "developers.css", "objects.css", "../pictures/machine.css", "picture.css", "home.css"]

const STYLE_FILE = asset("dashboard.css", "text/css; charset=utf-8", [STYLE, ...STYLES.map(ownFile)].join("\n"))

const SCRIPT_FILE = asset(
  "dashboard.js",
  "text/javascript; charset=utf-8",
  [libraryFile("htmx.min.js"), libraryFile("ext/hx-sse.min.js"), ownFile("dashboard.js")].join("\n;\n"),
)

export const ASSETS: ReadonlyArray<Asset> = [STYLE_FILE, SCRIPT_FILE]

/** The elements that load both. */
export const ASSET_ELEMENTS: Html = ownMarkup(
  `<link rel="stylesheet" href="${STYLE_FILE.path}">\n<script src="${SCRIPT_FILE.path}" defer></script>`,
)
