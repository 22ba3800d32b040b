/** The stand-ins for rails, and what each account's merchants there hear, say and announce. */
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import type { Call, Fault } from "../support/rails/fault.ts"
import { startFlutterwave } from "../support/rails/flutterwave.ts"
import { startPaystack } from "../support/rails/paystack.ts"
import type { StandIn } from "../support/rails/standIn.ts"
import type { Callback, Merchant } from "../support/rails/wire.ts"
import { faultOf } from "./faults.ts"
import type { CallbackWay, Planned, Schedule } from "./schedule.ts"

/** What a rail said of a charge, as far as it counts for the books. */
export interface Told {
  readonly status: "succeeded" | "failed" | "abandoned"
  readonly amountKobo: number
  readonly currency: string
  readonly isMisnamed: boolean
}

/** A call that reached its rail. */
export interface Heard {
  readonly rail: OutsideRail
  readonly kind: Call["kind"]
  /** In our spelling. */
  readonly reference: string
  readonly fault: Planned["fault"]
  /** Which of our processes made it. */
  readonly generation: number
  /** undefined: nothing that counts. */
  readonly told: Told | undefined
}

/** Whoever an account is at the rails. */
export interface Party {
  readonly schedule: Schedule
  readonly merchants: Partial<Record<OutsideRail, Merchant>>
  readonly heard: Array<Heard>
  /** A callback of its rail comes. */
  readonly called: (rail: OutsideRail, callback: Callback, way: CallbackWay) => void
}

/** What is planned for calls of each kind. */
const STREAMS = {
  charge: "charges",
  open: "opens",
  page: "payments",
  verify: "asks",
  refund: "refunds",
  refund_status: "refundAsks",
} as const satisfies Record<Exclude<Call["kind"], "list">, keyof Schedule>

type Stream = (typeof STREAMS)[keyof typeof STREAMS] | "callbacks"

const PREFIX = "account:"

const ours = (reference: string): string => reference.replace(/^([a-z]+)-/, "$1_")

/** How Paystack speaks of a transaction on which nobody has paid; Flutterwave says it is pending, or that there is none. */
const statusOf = (
  rail: OutsideRail,
  kind: Call["kind"],
  { status, steppedUp }: { readonly status: string; readonly steppedUp: boolean },
) => {
  if (status === "succeeded" || status === "failed") return status
  if (status !== "open") return undefined
  if (kind === "charge") return steppedUp ? "failed" : undefined
  return rail === "paystack" ? "abandoned" : undefined
}

export class RailsOfAll {
  readonly standIns: Readonly<Record<OutsideRail, StandIn>>
  /** By secret key. */
  readonly #parties = new Map<string, Party>()
  readonly #drawn = new Map<string, number>()
  /** Calls that our processes make, dead ones too, by reference. */
  readonly #underWay = new Map<string, ReadonlyArray<{ readonly generation: number }>>()
  /** Which of our processes lives. */
  generation = 0
  /** Called when a rail has done what a call asks for, before its answer is read. */
  performed: () => void = () => {}

  private constructor(standIns: Readonly<Record<OutsideRail, StandIn>>) {
    this.standIns = standIns
    for (const rail of ["paystack", "flutterwave"] as const) {
      standIns[rail].callbacks.sending = { when: "held" }
      standIns[rail].decide((call) => this.#decide(rail, call))
    }
  }

  static start = async (): Promise<RailsOfAll> =>
    new RailsOfAll({ paystack: await startPaystack(), flutterwave: await startFlutterwave() })

  close = async (): Promise<void> => {
    await this.standIns.paystack.close()
    await this.standIns.flutterwave.close()
  }

  get urls(): Readonly<Record<OutsideRail, string>> {
    return { paystack: this.standIns.paystack.url, flutterwave: this.standIns.flutterwave.url }
  }

  /** Notes that one of our processes calls about a reference; what it returns says that it does not any more. */
  begin = (reference: string, generation: number): (() => void) => {
    const one = { generation }
    this.#underWay.set(reference, [...(this.#underWay.get(reference) ?? []), one])
    return () => this.#finish(reference, one)
  }

  #finish = (reference: string, one: object | undefined): void => {
    const others = (this.#underWay.get(reference) ?? []).filter((other) => other !== one)
    if (others.length > 0) this.#underWay.set(reference, others)
    else this.#underWay.delete(reference)
  }

  /** Which of our processes made the call about a reference that comes in now: the first that has one under way; 0: none has. */
  #callerOf = (reference: string): number => {
    const first = this.#underWay.get(reference)?.[0]
    this.#finish(reference, first)
    return first?.generation ?? 0
  }

  /** The merchant of an account at a rail; made where there is none. */
  merchantOf = (party: Party, rail: OutsideRail, key: string): Merchant => {
    const known = party.merchants[rail]
    if (known !== undefined) return known
    const merchant = this.standIns[rail].merchant(key, { callbackUrl: `${PREFIX}${key}` })
    party.merchants[rail] = merchant
    this.#parties.set(merchant.secretKey, party)
    this.#parties.set(merchant.callbackUrl!, party)
    return merchant
  }

  rotate = (party: Party, rail: OutsideRail, key: string): void => {
    const merchant = party.merchants[rail]!
    this.standIns[rail].rotate(merchant, key)
    this.#parties.set(key, party)
  }

  /** Forgets everybody. */
  clear = (): void => {
    this.#parties.clear()
    this.#drawn.clear()
    this.#underWay.clear()
    for (const { merchants, calls, callbacks } of Object.values(this.standIns)) {
      merchants.clear()
      calls.log.length = 0
      callbacks.held.length = 0
    }
  }

  /** What is planned next of a kind for a party; undefined: nothing more. */
  #next = <T>({ schedule }: Party, kind: Stream, from: ReadonlyArray<T>) => {
    const key = `${kind} ${schedule.number}`
    const drawn = this.#drawn.get(key) ?? 0
    this.#drawn.set(key, drawn + 1)
    return from[drawn]
  }

  #decide = (rail: OutsideRail, { kind, key, reference, amountKobo }: Call): Fault | undefined => {
    const party = this.#parties.get(key)
    // Only an operator has transactions listed.
    if (party === undefined || kind === "list") return undefined
    const { schedule } = party
    const stream = STREAMS[kind]
    const { fault: name, much } = this.#next(party, stream, schedule[stream]) ?? {
      fault: "none" as const,
      much: 0,
    }
    const fault = faultOf(name, much, amountKobo ?? 0)
    const generation = this.#callerOf(ours(reference))
    // By then the rail has done what it was asked for, and has not answered yet.
    queueMicrotask(() => {
      const told = this.#told(rail, party, kind, reference, fault)
      party.heard.push({ rail, kind, reference: ours(reference), fault: name, generation, told })
      this.drain()
      this.performed()
    })
    return fault
  }

  #told = (rail: OutsideRail, party: Party, kind: Call["kind"], reference: string, fault: Fault | undefined) => {
    const transaction = party.merchants[rail]!.books.find(reference)
    if (transaction === undefined || fault?.outcome === "nothing") return undefined
    if (kind !== "charge" && kind !== "verify") return undefined
    const isMisnamed = fault?.answer === "wrong_reference"
    if (fault?.answer !== undefined && !isMisnamed) return undefined
    const status = statusOf(rail, kind, transaction)
    if (status === undefined) return undefined
    // Refused in words only.
    if (kind === "charge" && transaction.spoken === "error" && status === "failed") return undefined
    const { amountKobo, currency } = transaction
    return { status, amountKobo, currency, isMisnamed } satisfies Told
  }

  /** Hands on what the rails have announced. */
  drain = (): void => {
    for (const rail of ["paystack", "flutterwave"] as const) {
      for (const { url, callback } of this.standIns[rail].callbacks.held.splice(0)) {
        const party = this.#parties.get(url)
        if (party === undefined) continue
        party.called(rail, callback, this.#next(party, "callbacks", party.schedule.callbacks) ?? "at once")
      }
    }
  }
}
