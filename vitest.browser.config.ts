import { defineConfig } from "vitest/config"

/** The tests that drive a browser: apart from the others, which need none. */
export default defineConfig({
  test: {
    include: ["test/browser/**/*.test.ts"],
    globalSetup: ["test/support/postgres.ts", "test/support/chromium.ts"],
    // Two cores: a server beside each file, and one browser.
    maxWorkers: 2,
    isolate: false,
    // For machines that have much else to do. None of the tests asserts how long something takes.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    reporters: ["default"],
  },
})
