/** Logs incoming calls and their concurrency. */
import type { Call, Fault } from "./fault.ts"

export interface LoggedCall extends Call {
  /** The call's error. undefined: none. */
  readonly fault: Fault | undefined
}

interface Gauge {
  now: number
  most: number
}

export class Calls {
  /** The latest, oldest first. */
  readonly log: Array<LoggedCall> = []
  /** All calls with a valid key. */
  total = 0
  /** Calls with an invalid key. */
  unauthorized = 0
  readonly #limit: number
  readonly #all: Gauge = { now: 0, most: 0 }
  readonly #byKey = new Map<string, Gauge>()
  readonly #attempts = new Map<string, number>()
  constructor(limit: number) {
    this.#limit = limit
  }

  #gauge = (key?: string): Gauge => {
    if (key === undefined) return this.#all
    const existing = this.#byKey.get(key) ?? { now: 0, most: 0 }
    this.#byKey.set(key, existing)
    return existing
  }

  /** Counts a call as in progress. The returned function ends that. */
  begin = (key: string): (() => void) => {
    const gauges = [this.#all, this.#gauge(key)]
    for (const gauge of gauges) {
      gauge.now++
      gauge.most = Math.max(gauge.most, gauge.now)
    }
    return () => {
      for (const gauge of gauges) gauge.now--
    }
  }

  attempt = (kind: string, reference: string): number => {
    const attempt = (this.#attempts.get(`${kind} ${reference}`) ?? 0) + 1
    this.#attempts.set(`${kind} ${reference}`, attempt)
    return attempt
  }

  note = (call: LoggedCall): void => {
    this.total++
    this.log.push(call)
    // Drops one half at a time: dropping one by one would move the rest each time.
    if (this.log.length > 2 * this.#limit) this.log.splice(0, this.#limit)
  }

  /** The logged calls of a kind, about a reference as it is on the wire. */
  of = (kind: Call["kind"], reference?: string): ReadonlyArray<LoggedCall> =>
    this.log.filter((call) => call.kind === kind && (reference === undefined || call.reference === reference))

  /** The number in progress now, of all merchants or of one key. */
  underWay = (key?: string): number => this.#gauge(key).now

  /** The maximum number that was in progress at the same time. */
  most = (key?: string): number => this.#gauge(key).most
}
