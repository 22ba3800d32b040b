import { defineConfig } from "vitest/config"

/** Tests that start many processes and kill them: they run once all the others are done. */
const OUTER = ["test/cells/**/*.test.ts", "test/faults/**/*.test.ts"]

export default defineConfig({
  test: {
    globalSetup: ["test/support/postgres.ts"],
    // Two more than there are cores: tests wait for servers, servers for the database.
    maxWorkers: 4,
    // Of the tests of a file that wait more than they work. Each has servers, with connections of their own.
    maxConcurrency: 2,
    // For machines that have much else to do. None of the tests asserts how long something takes.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    reporters: ["default"],
    // What passes prints a line for each file: no slow tests, no logs.
    slowTestThreshold: 600_000,
    silent: "passed-only",
    // A worker imports the service once, and shares a server among its files (test/support/instance.ts).
    isolate: false,
    projects: [
      {
        extends: true,
        test: {
          name: "inner",
          include: ["test/**/*.test.ts"],
          // The browser and the simulation have configurations of their own.
          exclude: [...OUTER, "test/browser/**", "test/simulation/**"],
          sequence: { groupOrder: 0 },
        },
      },
      { extends: true, test: { name: "outer", include: OUTER, sequence: { groupOrder: 1 } } },
    ],
  },
})
