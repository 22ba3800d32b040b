/** Finds the hledger of this machine, which checks exported books, or installs one if allowed. */
import { findProgram } from "./debian.ts"

/** The message if there is none. */
export const HLEDGER_MISSING = "No hledger found: install it, or set HLEDGER_PATH to the program."

export const findHledger = (): string | undefined =>
  findProgram({
    setting: "HLEDGER_PATH",
    places: ["/usr/bin/hledger", "/usr/local/bin/hledger", "/opt/homebrew/bin/hledger"],
    package: "hledger",
    purpose: "which checks the exported books",
  })
