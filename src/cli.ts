/**
 * The operator's command line (docs/operating.md). With --json standard output is one JSON document; errors go to
 * standard error with exit code 1, bad usage with 2. It works beside a running server.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { commandLine } from "./cli/commandLine.ts"

// What became of a write, the write itself says; without a listener the event would end the process.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})

NodeRuntime.runMain(commandLine, { disableErrorReporting: true })
