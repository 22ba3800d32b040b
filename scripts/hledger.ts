/** An hledger of this machine, which checks exported books: the one that is installed, or, where we may, one that we install. */
import { findProgram } from "./debian.ts"

/** What to do where there is none. */
export const HLEDGER_MISSING = "No hledger here: install it, or set HLEDGER_PATH to the program."

export const findHledger = (): string | undefined =>
  findProgram({
    setting: "HLEDGER_PATH",
    places: ["/usr/bin/hledger", "/usr/local/bin/hledger", "/opt/homebrew/bin/hledger"],
    package: "hledger",
    purpose: "which checks the exported books",
  })
