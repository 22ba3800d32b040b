import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/**
 * The order of files. Those with servers of their own come first, the longest of them first; then those that share one
 * (test/support/instance.ts), which then need not stand by, with its connections, while others have theirs; and at the end
 * what is short, so that all workers are busy until then.
 */
const ORDER = [
  "checkout/races",
  "http/batches",
  "isolation/tenants",
  "cells/routes",
  "faults/crash",
  "cells/move",
  "nudge/faults",
  "nudge/messengers",
  "isolation/deletion",
  "isolation/secrets",
  "webhook/delivery",
  "webhook/backlog",
  "cells/guards",
  "faults/idempotency",
  "checkout/crash",
  "rail/throttle",
  "rail/asking",
  "rail/crash",
  "rail/charges",
  "rail/callbacks_followed",
  "rail/reconciliation",
  "faults/races",
  "cells/books",
  "faults/silence",
  "faults/operations",
  "faults/start",
  "faults/cli",
  "invoice",
  "faults/poison",
  "faults/downtime",
  "ledger/document",
  "ledger/days",
  "ledger/closing",
  "ledger/settlements",
  "ledger/vat",
  "ledger/entries",
  "isolation",
  "http/document",
  "webhook/addresses",
  "scenarios/model",
  "scenarios/cycles",
  "nudge/nudge",
  "scenarios/dunning",
  "scenarios/renewal",
  "usage",
]

const rank = ({ moduleId }: TestSpecification): number => {
  const found = ORDER.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`))
  return found === -1 ? ORDER.length : found
}

class InOrder extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    return files.toSorted((a, b) => rank(a) - rank(b) || a.moduleId.localeCompare(b.moduleId))
  }
}

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // With commands of their own: vitest.browser.config.ts, vitest.simulation.config.ts.
    exclude: ["test/browser/**", "test/simulation/**"],
    globalSetup: ["test/support/postgres.ts"],
    // Two more than there are cores: tests wait for servers, servers for the database. The fourth gains a tenth (273 s for 302, in turn).
    maxWorkers: 4,
    // Of the tests of a file that wait more than they work. Each has servers, with connections of their own.
    maxConcurrency: 2,
    // A worker imports the service once, and shares a server among its files (test/support/instance.ts).
    isolate: false,
    sequence: { sequencer: InOrder },
    // For machines that have much else to do. None of the tests asserts how long something takes.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    reporters: ["default"],
  },
})
