/** Compares docs/dashboard.md with the code. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { ROOT } from "../../scripts/server.ts"
import { may, RIGHTS, type Right, ROLES } from "../../src/security/role/rights.ts"

const DOCUMENT = readFileSync(join(ROOT, "docs", "dashboard.md"), "utf8")

it("has the table of rights", () => {
  const rows = (Object.keys(RIGHTS) as ReadonlyArray<Right>).map((right) => {
    const cells = ROLES.map((role) => (may(role, right, true) ? "yes" : may(role, right, false) ? "sandbox" : "–"))
    return `| ${[right, RIGHTS[right], ...cells].join(" | ")} |`
  })
  const head = `| ${["right", "what it covers", ...ROLES].join(" | ")} |`
  expect(DOCUMENT).toContain([head, `|${" --- |".repeat(ROLES.length + 2)}`, ...rows].join("\n"))
})
