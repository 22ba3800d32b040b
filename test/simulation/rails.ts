/** Runs the stand-ins for rails, and records what each account's merchants receive, say and announce there. */
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import type { Call, Fault } from "../support/rails/fault.ts"
import { startFlutterwave } from "../support/rails/flutterwave.ts"
import { startPaystack } from "../support/rails/paystack.ts"
import type { StandIn } from "../support/rails/standIn.ts"
import type { Callback, Merchant } from "../support/rails/wire.ts"
import { faultOf } from "./faults.ts"
import type { CallbackWay, Planned, Schedule } from "./schedule.ts"

/** A rail's statement about a charge that counts for the books. */
export interface RailReport {
  readonly status: "succeeded" | "failed" | "abandoned"
  readonly amountKobo: number
  readonly currency: string
  readonly isMisnamed: boolean
}

/** A call that reached its rail. */
export interface RailCall {
  readonly rail: OutsideRail
  readonly kind: Call["kind"]
  /** In our spelling. */
  readonly reference: string
  readonly fault: Planned["fault"]
  /** The process that made it. */
  readonly generation: number
  /** undefined: no statement that counts. */
  readonly report: RailReport | undefined
}

/** An account's merchants at the rails. */
export interface Party {
  readonly schedule: Schedule
  readonly merchants: Partial<Record<OutsideRail, Merchant>>
  readonly railCalls: Array<RailCall>
  /** A callback of its rail arrives. */
  readonly called: (rail: OutsideRail, callback: Callback, way: CallbackWay) => void
}

/** The planned faults for calls of each kind. */
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

/** Paystack's status of an unpaid transaction. Flutterwave reports it as pending or unknown. */
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
  /** The process that is alive. */
  generation = 0
  /** Called when a rail has done a call's work, before its answer is read. */
  performed: () => void = () => {}

  private constructor(standIns: Readonly<Record<OutsideRail, StandIn>>) {
    this.standIns = standIns
    for (const rail of ["paystack", "flutterwave"] as const) {
      standIns[rail].callbacks.sending = { when: "kept" }
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

  /** Records that one of our processes calls about a reference. The returned function ends that. */
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

  /** The process of an incoming call about a reference: the first that has one in progress, or 0. */
  #callerOf = (reference: string): number => {
    const first = this.#underWay.get(reference)?.[0]
    this.#finish(reference, first)
    return first?.generation ?? 0
  }

  /** The merchant of an account at a rail, created if it does not exist. */
  merchantOf = (party: Party, rail: OutsideRail, key: string): Merchant => {
    const existing = party.merchants[rail]
    if (existing !== undefined) return existing
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

  /** Clears all merchants. */
  clear = (): void => {
    this.#parties.clear()
    this.#drawn.clear()
    this.#underWay.clear()
    for (const { merchants, calls, callbacks } of Object.values(this.standIns)) {
      merchants.clear()
      calls.log.length = 0
      callbacks.kept.length = 0
    }
  }

  /** The next planned fault of a kind for a party. undefined if there is none left. */
  #next = <T>({ schedule }: Party, kind: Stream, from: ReadonlyArray<T>) => {
    const key = `${kind} ${schedule.number}`
    const drawn = this.#drawn.get(key) ?? 0
    this.#drawn.set(key, drawn + 1)
    return from[drawn]
  }

  #decide = (rail: OutsideRail, { kind, key, reference, amountKobo }: Call): Fault | undefined => {
    const party = this.#parties.get(key)
    // Only an operator lists transactions.
    if (party === undefined || kind === "list") return undefined
    const { schedule } = party
    const stream = STREAMS[kind]
    const { fault: name, much } = this.#next(party, stream, schedule[stream]) ?? {
      fault: "none" as const,
      much: 0,
    }
    const fault = faultOf(name, much, amountKobo ?? 0)
    const generation = this.#callerOf(ours(reference))
    // By then the rail has done the call's work, and has not answered yet.
    queueMicrotask(() => {
      const report = this.#reportOf(rail, party, kind, reference, fault)
      party.railCalls.push({ rail, kind, reference: ours(reference), fault: name, generation, report })
      this.drain()
      this.performed()
    })
    return fault
  }

  #reportOf = (rail: OutsideRail, party: Party, kind: Call["kind"], reference: string, fault: Fault | undefined) => {
    const transaction = party.merchants[rail]!.books.find(reference)
    if (transaction === undefined || fault?.outcome === "nothing") return undefined
    if (kind !== "charge" && kind !== "verify") return undefined
    const isMisnamed = fault?.answer === "wrong_reference"
    if (fault?.answer !== undefined && !isMisnamed) return undefined
    const status = statusOf(rail, kind, transaction)
    if (status === undefined) return undefined
    // Refused with words only.
    if (kind === "charge" && transaction.spoken === "error" && status === "failed") return undefined
    const { amountKobo, currency } = transaction
    return { status, amountKobo, currency, isMisnamed } satisfies RailReport
  }

  /** Forwards the rails' announcements. */
  drain = (): void => {
    for (const rail of ["paystack", "flutterwave"] as const) {
      for (const { url, callback } of this.standIns[rail].callbacks.kept.splice(0)) {
        const party = this.#parties.get(url)
        if (party === undefined) continue
        party.called(rail, callback, this.#next(party, "callbacks", party.schedule.callbacks) ?? "at once")
      }
    }
  }
}
