/** Sends callbacks: immediately, or when the test asks for it. */
import type { Callback } from "./wire.ts"

export interface Sending {
  /**
   * `before`: the call's own answer waits until the merchant has the callback. `after`: sent after the answer is
   * written. `kept`: kept for `flush`.
   */
  readonly when: "before" | "after" | "kept"
  /** The number of copies of each. 2: doubled. */
  readonly times?: number
}

export interface Due {
  readonly url: string
  readonly callback: Callback
}

/** The merchant's answer: a status, or null if it could not be reached. */
export const post = async (url: string, { headers, body }: Callback): Promise<number | null> => {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return null
  }
}

export class Callbacks {
  /** May be changed at any time. */
  sending: Sending = { when: "after" }
  /** Not sent yet, or not answered with a 2xx: rails retry those. */
  kept: Array<Due> = []
  /** The number answered with a 2xx. */
  taken = 0
  readonly #underWay = new Set<Promise<unknown>>()

  #send = async (due: Due): Promise<void> => {
    const status = await post(due.url, due.callback)
    if (status !== null && status >= 200 && status < 300) this.taken++
    else this.kept.push(due)
  }

  /** Sends all copies of each, in parallel. */
  send = (dues: ReadonlyArray<Due>): Promise<unknown> => {
    const times = this.sending.times ?? 1
    const copies = dues.flatMap((due) => Array.from({ length: times }, () => due))
    const sent = Promise.all(copies.map(this.#send))
    this.#underWay.add(sent)
    return sent.finally(() => this.#underWay.delete(sent))
  }

  /** Waits until none is in progress. */
  idle = async (): Promise<void> => {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  /**
   * Sends the kept ones, in the order that `arrange` returns (it may drop, repeat, shuffle). `atOnce`: in parallel,
   * otherwise one after another. Those not answered with a 2xx are kept again.
   */
  flush = async ({
    atOnce = false,
    arrange = (dues) => dues,
  }: {
    readonly atOnce?: boolean
    readonly arrange?: (dues: ReadonlyArray<Due>) => ReadonlyArray<Due>
  } = {}): Promise<void> => {
    const dues = arrange(this.kept.splice(0))
    if (atOnce) await this.send(dues)
    else for (const due of dues) await this.send([due])
  }
}
