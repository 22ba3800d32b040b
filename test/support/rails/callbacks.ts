/** Sends callbacks: at once, or when the test says so. */
import type { Callback } from "./wire.ts"

export interface Sending {
  /**
   * `before`: the call's own answer waits until the merchant has the callback. `after`: sent once the answer is written.
   * `held`: kept for `flush`.
   */
  readonly when: "before" | "after" | "held"
  /** How often each is sent; 2: doubled. */
  readonly times?: number
}

export interface Due {
  readonly url: string
  readonly callback: Callback
}

/** What the merchant answered: a status, or null if it could not be reached. */
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
  /** Not sent yet, or not taken with a 2xx: rails try those again. */
  held: Array<Due> = []
  /** How many were taken with a 2xx. */
  taken = 0
  readonly #underWay = new Set<Promise<unknown>>()

  #send = async (due: Due): Promise<void> => {
    const status = await post(due.url, due.callback)
    if (status !== null && status >= 200 && status < 300) this.taken++
    else this.held.push(due)
  }

  /** Sends each as often as it is to be, all at once. */
  send = (dues: ReadonlyArray<Due>): Promise<unknown> => {
    const times = this.sending.times ?? 1
    const copies = dues.flatMap((due) => Array.from({ length: times }, () => due))
    const sent = Promise.all(copies.map(this.#send))
    this.#underWay.add(sent)
    return sent.finally(() => this.#underWay.delete(sent))
  }

  /** Waits until none is on its way. */
  idle = async (): Promise<void> => {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  /**
   * Sends what is held, in the order that `arrange` makes of it (it may leave out, repeat, shuffle); `atOnce`: in a burst,
   * otherwise one after another. What is not taken is held again.
   */
  flush = async ({
    atOnce = false,
    arrange = (dues) => dues,
  }: {
    readonly atOnce?: boolean
    readonly arrange?: (dues: ReadonlyArray<Due>) => ReadonlyArray<Due>
  } = {}): Promise<void> => {
    const dues = arrange(this.held.splice(0))
    if (atOnce) await this.send(dues)
    else for (const due of dues) await this.send([due])
  }
}
