/** A library by which a process has a clock of its own: the one that is installed, or, where we may, one that we install. */
import { writeFileSync } from "node:fs"
import { findProgram } from "./debian.ts"

/** What to do where there is none. */
export const FAKETIME_MISSING = "No libfaketime here: install faketime, or set FAKETIME_PATH to libfaketime.so.1."

export const findFaketime = (): string | undefined =>
  findProgram({
    setting: "FAKETIME_PATH",
    places: ["x86_64-linux-gnu", "aarch64-linux-gnu"].map((machine) => `/usr/lib/${machine}/faketime/libfaketime.so.1`),
    package: "faketime",
    purpose: "by which processes have clocks of their own",
    isLibrary: true,
  })

/** The environment of a process whose wall clock differs by what the file says, such as `+40d`; its monotonic clock goes on as it is. */
export const clockOf = (library: string, file: string): Readonly<Record<string, string>> => ({
  LD_PRELOAD: library,
  FAKETIME_TIMESTAMP_FILE: file,
  FAKETIME_NO_CACHE: "1",
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
})

/** Sets the clock of the processes that read the file. */
export const setClock = (file: string, difference: string): void => writeFileSync(file, `${difference}\n`)
