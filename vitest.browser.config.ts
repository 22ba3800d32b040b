import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** The longest first, so that both workers are busy until the end. */
const ORDER = ["checkout", "rails", "races", "paymentLink", "everybody"]

const rank = ({ moduleId }: TestSpecification): number => {
  const found = ORDER.findIndex((name) => moduleId.endsWith(`/test/browser/${name}.test.ts`))
  return found === -1 ? ORDER.length : found
}

class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    return files.toSorted((a, b) => rank(a) - rank(b) || a.moduleId.localeCompare(b.moduleId))
  }
}

/** The tests that drive a browser: apart from the others, which need none. */
export default defineConfig({
  test: {
    include: ["test/browser/**/*.test.ts"],
    globalSetup: ["test/support/postgres.ts", "test/support/chromium.ts"],
    // Two cores: a server beside each file, and one browser.
    maxWorkers: 2,
    isolate: false,
    sequence: { sequencer: LongestFirst },
    // For machines that have much else to do. None of the tests asserts how long something takes.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    reporters: ["default"],
  },
})
