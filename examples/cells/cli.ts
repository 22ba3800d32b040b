/** The operator's command line, as a script uses it. */
import { spawnSync } from "node:child_process"
import { join } from "node:path"

export const CLI = join(import.meta.dirname, "../../src/cli.ts")

/** Runs a command with these settings; returns the document, or the text, that it prints. */
// biome-ignore lint/suspicious/noExplicitAny: documents are read field by field, as any script does
export const runCli = (settings: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>): any => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", CLI, ...args, "--json"],
    { encoding: "utf8", env: { PATH: process.env.PATH, ...settings }, maxBuffer: 2 ** 26 },
  )
  if (status !== 0) throw new Error(stderr.trim())
  return /^[[{]/.test(stdout) ? JSON.parse(stdout) : stdout
}
