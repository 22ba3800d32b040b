/** `journal …`: proves the journal of the lifecycles, and shows the life of one object. */
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { draw, pictureOf, type Step } from "../pages/pictures/draw.ts"
import { upcoming } from "../runtime/timeline.ts"
import type { Transition } from "../runtime/timelineApi.ts"
import { Refused, Unsound } from "./failures.ts"
import { migrated } from "./Installation.ts"
import { type FoundActor, findActors, wholeTimeline } from "./lives.ts"
import { show } from "./output.ts"
import { accountOption } from "./parameters.ts"
import { paragraphs, table } from "./table.ts"

/** It imports all machines: only commands that replay load it. */
const machines = Effect.promise(() => Promise.all([import("../runtime/replay.ts"), import("../app/lifecycles.ts")]))

const replay = Command.make(
  "replay",
  { actors: Argument.String("ACTOR").pipe(Argument.variadic()) },
  Effect.fn("journal.replay")(function* ({ actors }) {
    const [{ replayJournal }, { replayables }] = yield* machines
    const { replayed, differing, unknown } = yield* replayJournal(replayables, actors)
    if (unknown[0] !== undefined) return yield* new Refused({ message: `No such actor in the journal: ${unknown[0]}.` })
    yield* show({ replayed, differing })
    if (differing.length > 0) return yield* new Unsound()
  }),
)

const prove = Command.make(
  "prove",
  {
    account: accountOption.pipe(Flag.withDefault(undefined)),
    limit: Flag.Int("limit").pipe(Flag.withMetavar("N"), Flag.withDefault(undefined)),
  },
  Effect.fn("journal.prove")(function* ({ account, limit }) {
    const [{ proveJournal }, { replayables }] = yield* machines
    const options = { ...(account === undefined ? {} : { account }), ...(limit === undefined ? {} : { limit }) }
    const proof = yield* proveJournal(replayables, options)
    yield* show(proof)
    if (proof.differ > 0) return yield* new Unsound()
  }),
)

type Item = typeof Transition.Type

const createdBy = ({ charges, refunds, ledger_entries, nudges, events }: Item): string =>
  [...charges, ...refunds, ...ledger_entries, ...nudges, ...events].join(" ")

const askedBy = ({ cause: { kind, request_id, key, member } }: Item): string =>
  [kind, key, member, request_id].filter((one) => one !== null).join(" ")

interface ShownActor {
  readonly id: string
  readonly kind: string
  readonly account: string
  readonly livemode: boolean
  readonly state: string
  readonly transitions: ReadonlyArray<Item>
  readonly upcoming: ReadonlyArray<{ readonly name: string; readonly at: string }>
}

const inWords = ({ id, kind, account, livemode, state, transitions, upcoming }: ShownActor): string =>
  paragraphs(
    `${id}: ${kind} of ${account}, ${livemode ? "live" : "sandbox"}, now in ${state}`,
    table(
      ["version", "at", "event", "from", "to", "status", "cause", "created"],
      transitions.map((one) => [
        one.version,
        one.at,
        String(one.event.type),
        one.from,
        one.to,
        one.status_after,
        askedBy(one),
        createdBy(one),
      ]),
    ),
    upcoming.map(({ name, at }) => `${at}: ${name} is due`).join("\n"),
  )

const stepOf = (item: Item): Step => ({ from: item.from, to: item.to, trigger: String(item.event.type) })

const STYLE = join(import.meta.dirname, "../pages/pictures/machine.css")

/** Draws the machine of an actor with the path that it has taken, as a file that contains its style. Every kind has a picture. */
const pictureFor = ({ id, kind, state }: FoundActor, transitions: ReadonlyArray<Item>, style: string): string => {
  const title = `The machine of ${id}, now in ${state}`
  return draw(pictureOf(kind)!, { title, path: transitions.map(stepOf), current: state }, style)
}

const showLife = Command.make(
  "show",
  {
    id: Argument.String("ID"),
    account: accountOption.pipe(Flag.withDefault(undefined)),
    svg: Flag.String("svg").pipe(Flag.withMetavar("FILE"), Flag.withDefault(undefined)),
  },
  Effect.fn("journal.show")(function* ({ id, account, svg }) {
    const [actor, other] = yield* findActors(id, account)
    if (actor === undefined) return yield* new Refused({ message: `No such actor in the journal: ${id}.` })
    if (other !== undefined)
      return yield* new Refused({ message: `Several accounts have ${id}: name one with --account.` })
    const transitions = yield* wholeTimeline(actor)
    if (svg !== undefined) {
      yield* Effect.tryPromise({
        try: async () => writeFile(svg, pictureFor(actor, transitions, await readFile(STYLE, "utf8"))),
        catch: (error) => new Refused({ message: `${svg} cannot be written: ${(error as Error).message}` }),
      })
    }
    const { account_id, livemode, kind, state } = actor
    const waiting = yield* upcoming(actor, { ...actor, means: {} })
    yield* show({ id, kind, account: account_id, livemode, state, transitions, upcoming: waiting }, inWords)
  }),
)

export const journal = Command.make("journal").pipe(
  Command.withSubcommands([prove, replay, showLife]),
  Command.provide(migrated),
)
