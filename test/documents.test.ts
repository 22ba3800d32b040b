import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { NUDGE_FAILURES } from "../machines/nudge.ts"
import { machinesDocument } from "../scripts/machines/document.ts"
import { readCellsFile } from "../src/cells/cellsFile.ts"
import { haproxyConfig } from "../src/cells/haproxy.ts"
import { nameOf } from "../src/http/response.ts"
import { WORDINGS } from "../src/outbound/nudge/messages.ts"
import { FAILURE_CODES } from "../src/rails/rail/PaymentRail.ts"
import { declaredEvents } from "../src/sandbox/samples.ts"

const read = (path: string): string => readFileSync(join(import.meta.dirname, "..", path), "utf8")

describe("docs", () => {
  it("docs/machines.md shows the current machines (npm run machines)", () => {
    expect(read("docs/machines.md")).toBe(machinesDocument())
  })

  it("examples/cells/haproxy.cfg is the output of the cells beside it (cell haproxy)", async () => {
    const cells = await Effect.runPromise(
      readCellsFile(join(import.meta.dirname, "../examples/cells/cells.json"), true),
    )
    const config = haproxyConfig({ cells, bind: ":8080", admin: "127.0.0.1:9999", folder: "/etc/haproxy" })
    expect(read("examples/cells/haproxy.cfg")).toBe(config)
  })

  it("docs/decisions.md explains every failure code", () => {
    const text = read("docs/decisions.md")
    for (const code of [...FAILURE_CODES, ...NUDGE_FAILURES]) expect(text).toContain(code)
  })

  it("docs/webhooks.md lists every type of event", () => {
    const text = read("docs/webhooks.md")
    for (const { type, meaning, schema } of declaredEvents)
      expect(text).toContain(`| \`${type}\` | ${meaning} | ${nameOf(schema)} |`)
  })

  it("docs/operating.md has the words of every template", () => {
    const text = read("docs/operating.md")
    for (const [name, wording] of Object.entries(WORDINGS)) {
      let variable = 0
      const numbered = wording.text.replaceAll(/\{\w+\}/g, () => `{{${++variable}}}`)
      expect(text).toContain(`| \`${name}\` | ${numbered} {{${variable + 1}}} |`)
    }
  })

  it("name only files that exist, as comments do", () => {
    const root = join(import.meta.dirname, "..")
    const texts = ["docs", "examples", "machines", "migrations", "scripts", "src", "test"].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((name) => `${folder}/${name}`),
    )
    const named = [...texts, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
      .filter((path) => /\.(ts|md|sql|mjs)$/.test(path))
      .flatMap((path) =>
        [...read(path).matchAll(/\b(?:docs|machines|migrations|scripts|src|test)\/[\w/-]+\.(?:ts|md|sql)\b/g)].map(
          ([name]) => ({ path, name }),
        ),
      )
    expect(named.length).toBeGreaterThan(100)
    expect(
      named.filter(({ name, path }) => !existsSync(join(root, name)) && !existsSync(join(root, path, "..", name))),
    ).toEqual([])
  })

  it("CONTRIBUTING.md gives a reason for every dependency", () => {
    const text = read("CONTRIBUTING.md")
    const { dependencies, devDependencies } = JSON.parse(read("package.json")) as Record<string, Record<string, string>>
    for (const name of Object.keys({ ...dependencies, ...devDependencies })) expect(text).toContain(`| ${name} |`)
  })
})
