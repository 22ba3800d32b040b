/** `journal …`: proves the journal of the lifecycles, and shows the life of one object. */
import { writeFile } from "node:fs/promises"
import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { delayOf } from "../../machines/decide.ts"
import { draw, pictureOf, type Step } from "../pages/pictures/draw.ts"
import { type FoundActor, findActors, type Transition, wholeTimeline } from "../runtime/timeline.ts"
import { Refused, Unsound } from "./failures.ts"
import { migrated } from "./Installation.ts"
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

/** `after nextRetry`, or the type of the event. */
const causeOf = ({ event }: Item): string => {
  const type = String(event.type)
  const delay = delayOf(type)
  return delay === undefined ? type : `after ${delay}`
}

const broughtBy = ({ charges, refunds, ledger_entries, nudges, events }: Item): string =>
  [...charges, ...refunds, ...ledger_entries, ...nudges, ...events].join(" ")

const askedBy = ({ cause: { kind, request_id, key, member } }: Item): string =>
  [kind, key, member, request_id].filter((one) => one !== null).join(" ")

interface Life {
  readonly id: string
  readonly kind: string
  readonly account: string
  readonly livemode: boolean
  readonly state: string
  readonly transitions: ReadonlyArray<Item>
}

const inWords = ({ id, kind, account, livemode, state, transitions }: Life): string =>
  paragraphs(
    `${id}: ${kind} of ${account}, ${livemode ? "live" : "sandbox"}, now in ${state}`,
    table(
      ["version", "at", "heard", "from", "to", "status", "caused by", "brought about"],
      transitions.map((one) => [
        one.version,
        one.at,
        causeOf(one),
        one.from,
        one.to,
        one.status_after,
        askedBy(one),
        broughtBy(one),
      ]),
    ),
  )

const stepOf = (item: Item): Step => ({ from: item.from, to: item.to, cause: causeOf(item) })

/** Draws the machine of an actor with the path that it has taken. */
const pictureFor = ({ id, kind, state }: FoundActor, transitions: ReadonlyArray<Item>): string | undefined => {
  const picture = pictureOf(kind)
  return picture === undefined
    ? undefined
    : draw(picture, { title: `The machine of ${id}, now in ${state}`, path: transitions.map(stepOf), current: state })
}

const showLife = Command.make(
  "show",
  {
    id: Argument.String("ID"),
    svg: Flag.String("svg").pipe(Flag.withMetavar("FILE"), Flag.withDefault(undefined)),
  },
  Effect.fn("journal.show")(function* ({ id, svg }) {
    const [actor, other] = yield* findActors(id)
    if (actor === undefined) return yield* new Refused({ message: `No such actor in the journal: ${id}.` })
    if (other !== undefined)
      return yield* new Refused({ message: `Several accounts have ${id}: give the ID of another object.` })
    const transitions = yield* wholeTimeline(actor)
    if (svg !== undefined) {
      const drawn = pictureFor(actor, transitions)!
      yield* Effect.tryPromise({
        try: () => writeFile(svg, drawn),
        catch: (error) => new Refused({ message: `${svg} cannot be written: ${(error as Error).message}` }),
      })
    }
    const { account_id: account, livemode, kind, state } = actor
    yield* show({ id, kind, account, livemode, state, transitions }, inWords)
  }),
)

export const journal = Command.make("journal").pipe(
  Command.withSubcommands([prove, replay, showLife]),
  Command.provide(migrated),
)
