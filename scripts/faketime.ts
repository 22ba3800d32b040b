/** Finds the library that gives a process its own clock, or installs it if allowed. */
import { writeFileSync } from "node:fs"
import { findProgram } from "./debian.ts"

/** The message if there is none. */
export const FAKETIME_MISSING = "No libfaketime found: install faketime, or set FAKETIME_PATH to libfaketime.so.1."

export const findFaketime = (): string | undefined =>
  findProgram({
    setting: "FAKETIME_PATH",
    places: ["x86_64-linux-gnu", "aarch64-linux-gnu"].map((machine) => `/usr/lib/${machine}/faketime/libfaketime.so.1`),
    package: "faketime",
    purpose: "which gives processes their own clocks",
    isLibrary: true,
  })

/** The environment of a process whose wall clock differs by the value in a file, such as `+40d`; its monotonic clock is not changed. */
export const clockOf = (library: string, file: string): Readonly<Record<string, string>> => ({
  LD_PRELOAD: library,
  FAKETIME_TIMESTAMP_FILE: file,
  FAKETIME_NO_CACHE: "1",
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
})

/** Sets the clock of the processes that read the file. */
export const setClock = (file: string, difference: string): void => writeFileSync(file, `${difference}\n`)
