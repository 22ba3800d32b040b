/** Shows the progress of a long command on standard error: a bar on a terminal, otherwise a line from time to time. */
import { Effect } from "effect"
import { writeTo } from "./output.ts"

const WIDTH = 24
/** Drawing more often costs more than it shows. */
const DRAW_EVERY_MS = 100
const LINE_EVERY_MS = 5_000

/** The finished part, with a description. */
export interface Done {
  /** From 0 to 1. */
  readonly part: number
  readonly words: string
}

const bar = ({ part, words }: Done): string => {
  const filled = Math.round(Math.min(Math.max(part, 0), 1) * WIDTH)
  return `[${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}] ${String(Math.floor(part * 100)).padStart(3)} % ${words}`
}

/** Progress shows how far a command is. It may be called often, and limits its output. */
export class Progress {
  readonly #isWatched = process.stderr.isTTY === true
  #shownAt = performance.now()

  /** Shows the progress, if enough time has passed. */
  show(done: Done): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (performance.now() < this.#shownAt + (this.#isWatched ? DRAW_EVERY_MS : LINE_EVERY_MS)) return Effect.void
      this.#shownAt = performance.now()
      return this.#write(this.#isWatched ? `\r${bar(done)}\u001b[K` : `${bar(done)}\n`)
    })
  }

  /** Removes the bar and shows a final message. */
  end(words?: string): Effect.Effect<void> {
    return this.#write(`${this.#isWatched ? "\r\u001b[K" : ""}${words === undefined ? "" : `${words}\n`}`)
  }

  #write(text: string): Effect.Effect<void> {
    return text === "" ? Effect.void : Effect.ignore(writeTo(process.stderr, text))
  }
}
