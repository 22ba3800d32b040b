import { defineConfig } from "vitest/config"

/** The simulation, apart from the tests that tell one story each: two hundred schedules, from a seed that it names. */
export default defineConfig({
  test: {
    include: ["test/simulation/**/*.test.ts"],
    globalSetup: ["test/support/postgres.ts"],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    reporters: ["default"],
  },
})
