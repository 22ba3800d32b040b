/**
 * Runs the command line each time its parent asks: its imports take ten times as long to load as a command takes to
 * run. Real processes of it: test/faults/cli.test.ts.
 */
import { Effect, Runtime } from "effect"
import { commandLine } from "../../src/cli/commandLine.ts"
import type { Finished } from "./server.ts"

const run = async (args: ReadonlyArray<string>): Promise<Finished> => {
  const written = { stdout: "", stderr: "" }
  for (const name of ["stdout", "stderr"] as const)
    process[name].write = ((text: string, done?: () => void) => {
      written[name] += text
      done?.()
      return true
    }) as typeof process.stdout.write
  process.argv = [process.execPath, "cli", ...args]
  const exit = await Effect.runPromiseExit(commandLine)
  const code = await new Promise<number>((resolve) => Runtime.defaultTeardown(exit, resolve))
  return { code, output: written.stdout, errors: written.stderr }
}

process.on("message", async (args: ReadonlyArray<string>) => process.send!(await run(args)))
