/**
 * The operator's command line (docs/operating.md). With --json standard output is one JSON document. Errors go to standard error with exit
 * code 1, bad usage with 2. Commands can run beside a running server.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { commandLine } from "./cli/commandLine.ts"
import { outliveOutput } from "./process/output.ts"

outliveOutput()
NodeRuntime.runMain(commandLine, { disableErrorReporting: true })
