/**
 * Runs accounts in parallel on one database, with one of our processes after another: each is killed by the plan, and
 * the next one starts immediately.
 */
import { type Effect, Layer, ManagedRuntime, type Redacted } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { KEYS } from "../../scripts/server.ts"
import { poolLayer } from "../../src/db/database.ts"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import type { Callback } from "../support/rails/wire.ts"
import { letPass } from "../support/rewind.ts"
import type { Account } from "./account.ts"
import type { RailsOfAll } from "./rails.ts"
import type { Kill } from "./schedule.ts"
import { type Complaint, type LOST, type Service, type Services, startService } from "./service.ts"
import { type WorkState, workStates } from "./time.ts"

const LOOK_EVERY_MS = 10
/** By then no work is in progress, on a busy machine. */
const REST_LIMIT_MS = 60_000
const CONNECTIONS = 6

interface Waiting {
  readonly account: Account
  /** The minimum time to pass when it rests. null: none. */
  readonly passesMs: number | null
  readonly until: number
  readonly resolve: (passedMs: number | null) => void
  readonly reject: (error: Error) => void
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

export class World {
  readonly rails: RailsOfAll
  readonly complaints: Array<Complaint> = []
  kills = 0
  readonly #url: Redacted.Redacted<string>
  readonly #operator: ManagedRuntime.ManagedRuntime<SqlClient.SqlClient | Vault, SqlError.SqlError>
  readonly #began = performance.now()
  #kills: Array<Kill>
  #service!: Promise<Service>
  #waiting: Array<Waiting> = []
  #failure: unknown
  #isOver = false
  #sweeping = false

  constructor(url: Redacted.Redacted<string>, rails: RailsOfAll, kills: ReadonlyArray<Kill>) {
    this.rails = rails
    this.#url = url
    this.#kills = [...kills]
    this.#operator = ManagedRuntime.make(
      // The operator's work goes directly to the database.
      Layer.merge(poolLayer(url, CONNECTIONS, { enable_seqscan: "on", enable_hashjoin: "on" }), Vault.layer(KEYS)),
    )
    this.#start()
  }

  elapsed = (): string => `${((performance.now() - this.#began) / 1000).toFixed(3)}s #${this.rails.generation}`

  /** Runs work outside our process: it is never killed. */
  operate = <A, E>(program: Effect.Effect<A, E, SqlClient.SqlClient | Vault>): Promise<A> =>
    this.#operator.runPromise(program)

  #start = (): void => {
    const kill = this.#kills.shift()
    this.rails.generation++
    let calls = kill?.at === "rail" ? kill.call : Number.POSITIVE_INFINITY
    const { generation } = this.rails
    const place = {
      database: this.#url,
      rails: this.rails.urls,
      calls: (reference: string) => this.rails.begin(reference, generation),
    }
    this.#service = startService(place, kill?.at === "database" ? kill.breaks : undefined).then((service) => {
      this.rails.performed = () => {
        if (--calls === 0) service.kill()
      }
      void service.death.then(() => {
        this.complaints.push(...service.complaints)
        service.dispose().catch(() => {})
        if (this.#isOver) return
        this.kills++
        this.#start()
      })
      return service
    })
    this.#service.catch(this.fail)
  }

  /** Ends the world after an error. */
  fail = (error: unknown): void => {
    this.#failure ??= error
    for (const { reject } of this.#waiting.splice(0)) reject(error as Error)
  }

  /** The current process's result of a request. */
  ask = async <A>(request: Effect.Effect<A, SqlError.SqlError, Services>): Promise<A | typeof LOST> =>
    (await this.#service).run(request)

  callback = async (rail: OutsideRail, account: string, callback: Callback): Promise<number | typeof LOST> =>
    (await this.#service).callback(rail, account, callback)

  #wait = (account: Account, passesMs: number | null): Promise<number | null> =>
    new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure)
      this.#waiting.push({ account, passesMs, until: Date.now() + REST_LIMIT_MS, resolve, reject })
    })

  /** Waits until no work of an account is in progress or due. */
  rest = async (account: Account): Promise<void> => void (await this.#wait(account, null))

  /** Waits for that, and lets at least this time pass until something is due. null: nothing is ever due. */
  pass = (account: Account, atLeastMs = 0): Promise<number | null> => this.#wait(account, atLeastMs)

  #look = async (): Promise<void> => {
    const waiting = this.#waiting
    if (waiting.length === 0) return
    const { generation } = this.rails
    const callCounts = new Map(waiting.map(({ account }) => [account.id, account.railCalls.length]))
    // Work in progress before the check may start work after it.
    const idle = new Set(waiting.filter(({ account }) => account.underWay === 0).map(({ account }) => account.id))
    const found = await this.operate(workStates(waiting.map(({ account }) => account.id)))
    const byAccount = new Map(found.map((current) => [current.id, current]))
    if (found.some(({ is_due }) => is_due)) void this.#sweep()
    const rests = ({ account }: Waiting) => idle.has(account.id) && !byAccount.get(account.id)!.is_busy
    const resting = waiting.filter(rests)
    this.#waiting = this.#waiting.filter((one) => !resting.includes(one))
    // A process that died meanwhile makes nothing certain.
    if (generation === this.rails.generation)
      for (const { account } of resting) account.marks.push({ generation, callCount: callCounts.get(account.id)! })
    await this.#letPass(resting, byAccount)
    const late = this.#waiting.find(({ until }) => until < Date.now())
    if (late !== undefined)
      this.fail(
        new Error(
          `Account ${late.account.id} does not come to rest: ${JSON.stringify(byAccount.get(late.account.id))}`,
        ),
      )
  }

  #letPass = async (resting: ReadonlyArray<Waiting>, states: ReadonlyMap<string, WorkState>): Promise<void> => {
    const passing = resting.flatMap((one) => {
      const { id } = one.account
      const next = states.get(id)!.next_ms
      return one.passesMs === null || next === null ? [] : [{ account: id, ms: Math.max(next, one.passesMs) + 1 }]
    })
    await this.operate(letPass(passing))
    const passed = new Map(passing.map(({ account, ms }) => [account, ms]))
    for (const { account, resolve } of resting) resolve(passed.get(account.id) ?? null)
  }

  #sweep = async (): Promise<void> => {
    if (this.#sweeping) return
    this.#sweeping = true
    try {
      await (await this.#service).sweep()
    } catch (error) {
      this.fail(error)
    } finally {
      this.#sweeping = false
    }
  }

  /** Until all of them have run, this many in parallel. */
  run = async (lives: ReadonlyArray<() => Promise<void>>, atOnce: number): Promise<void> => {
    let living = true
    const next = lives[Symbol.iterator]()
    const lane = async () => {
      for (const live of next) await live()
    }
    const all = Promise.all(Array.from({ length: atOnce }, lane)).finally(() => {
      living = false
    })
    const looking = (async () => {
      while (living) {
        await this.#look()
        await sleep(LOOK_EVERY_MS)
      }
    })()
    looking.catch(this.fail)
    await Promise.all([all, looking])
    if (this.#failure !== undefined) throw this.#failure
  }

  end = async (): Promise<void> => {
    this.#isOver = true
    const service = await this.#service
    this.complaints.push(...service.complaints)
    await service.dispose()
    service.kill()
    await this.#operator.dispose()
  }
}

/** An error with its cause. */
export const inWords = (error: unknown): string =>
  error instanceof Error
    ? `${error.stack ?? error.message}${error.cause === undefined ? "" : `\n  because of ${inWords(error.cause)}`}`
    : String(error)
