/**
 * Accounts that live at the same time on one database, with one process of ours after another: each is killed as planned, and
 * the next one starts at once.
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
import { type Standing, standings } from "./time.ts"

const LOOK_EVERY_MS = 10
/** By then nothing is under way any more, on a machine that has much else to do. */
const REST_LIMIT_MS = 60_000
const CONNECTIONS = 6

interface Waiting {
  readonly account: Account
  /** How much time is to pass at least once it rests; null: none. */
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
      // What the operator does goes straight to the database.
      Layer.merge(poolLayer(url, CONNECTIONS, { enable_seqscan: "on", enable_hashjoin: "on" }), Vault.layer(KEYS)),
    )
    this.#start()
  }

  elapsed = (): string => `${((performance.now() - this.#began) / 1000).toFixed(3)}s #${this.rails.generation}`

  /** Runs what is none of our process's business: it is never killed. */
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

  /** Ends the world: something is wrong with it. */
  fail = (error: unknown): void => {
    this.#failure ??= error
    for (const { reject } of this.#waiting.splice(0)) reject(error as Error)
  }

  /** What the process that is there makes of a request. */
  ask = async <A>(request: Effect.Effect<A, SqlError.SqlError, Services>): Promise<A | typeof LOST> =>
    (await this.#service).run(request)

  callback = async (rail: OutsideRail, account: string, callback: Callback): Promise<number | typeof LOST> =>
    (await this.#service).callback(rail, account, callback)

  #wait = (account: Account, passesMs: number | null): Promise<number | null> =>
    new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure)
      this.#waiting.push({ account, passesMs, until: Date.now() + REST_LIMIT_MS, resolve, reject })
    })

  /** Waits until nothing of an account is under way or due. */
  rest = async (account: Account): Promise<void> => void (await this.#wait(account, null))

  /** Waits for that, and lets time pass until something is due, and so much of it at least; null: nothing ever is due. */
  pass = (account: Account, atLeastMs = 0): Promise<number | null> => this.#wait(account, atLeastMs)

  #look = async (): Promise<void> => {
    const waiting = this.#waiting
    if (waiting.length === 0) return
    const { generation } = this.rails
    const heard = new Map(waiting.map(({ account }) => [account.id, account.heard.length]))
    // Whoever has something under way before the look may begin something after it.
    const idle = new Set(waiting.filter(({ account }) => account.underWay === 0).map(({ account }) => account.id))
    const found = await this.operate(standings(waiting.map(({ account }) => account.id)))
    const byAccount = new Map(found.map((standing) => [standing.id, standing]))
    if (found.some(({ is_due }) => is_due)) void this.#sweep()
    const rests = ({ account }: Waiting) => idle.has(account.id) && !byAccount.get(account.id)!.is_busy
    const resting = waiting.filter(rests)
    this.#waiting = this.#waiting.filter((one) => !resting.includes(one))
    // Of a process that died meanwhile nothing is certain.
    if (generation === this.rails.generation)
      for (const { account } of resting) account.marks.push({ generation, heard: heard.get(account.id)! })
    await this.#letPass(resting, byAccount)
    const late = this.#waiting.find(({ until }) => until < Date.now())
    if (late !== undefined)
      this.fail(
        new Error(
          `Account ${late.account.id} does not come to rest: ${JSON.stringify(byAccount.get(late.account.id))}`,
        ),
      )
  }

  #letPass = async (resting: ReadonlyArray<Waiting>, standing: ReadonlyMap<string, Standing>): Promise<void> => {
    const passing = resting.flatMap((one) => {
      const { id } = one.account
      const next = standing.get(id)!.next_ms
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

  /** Until all of them have lived, so many at once. */
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

/** An error with what it comes of. */
export const inWords = (error: unknown): string =>
  error instanceof Error
    ? `${error.stack ?? error.message}${error.cause === undefined ? "" : `\n  because of ${inWords(error.cause)}`}`
    : String(error)
