/** What commands print: one document, as JSON or for people, or a text that is written as it comes. */
import { Data, Effect, Stream } from "effect"
import { Flag, GlobalFlag } from "effect/cli"

/** `--json`, taken anywhere on the command line. A value of its own keeps it from taking the next argument for one. */
export const Json = GlobalFlag.Setting("json")({
  flag: Flag.Boolean("json").pipe(
    Flag.withOptionalValue("true"),
    Flag.withoutNegation,
    Flag.withDefault(false),
    Flag.withDescription("Print one JSON document"),
  ),
})

class NotWritten extends Data.TaggedError("NotWritten")<{ readonly message: string; readonly code: unknown }> {}

/** Writes `text` and waits until the stream has passed it on: a slow reader slows the writer down. */
export const writeTo = (stream: NodeJS.WriteStream, text: string): Effect.Effect<void, NotWritten> =>
  Effect.callback((resume) => {
    stream.write(text, (error?: NodeJS.ErrnoException | null) => {
      if (error) resume(Effect.fail(new NotWritten({ message: error.message, code: error.code })))
      else resume(Effect.void)
    })
  })

/** Writes texts to standard output as they come. A reader that has seen enough (`| head`) ends them quietly. */
export const print = <E, R>(texts: Stream.Stream<string, E, R>): Effect.Effect<void, E | NotWritten, R> =>
  texts.pipe(
    Stream.runForEach((text) => writeTo(process.stdout, text)),
    Effect.catchIf(
      (error) => error instanceof NotWritten && error.code === "EPIPE",
      () => Effect.void,
    ),
  )

/** A document for people: one `name: value` line each, values that have parts as JSON. */
const readable = (value: unknown): string => {
  if (Array.isArray(value)) return value.map(readable).join("\n\n")
  if (typeof value !== "object" || value === null) return String(value)
  return Object.entries(value)
    .map(
      ([name, inner]) =>
        `${name}: ${typeof inner === "object" && inner !== null ? JSON.stringify(inner) : String(inner)}`,
    )
    .join("\n")
}

/** Shows what a command has to say: the one document of its standard output, for people as `inWords` has it. */
export const show = Effect.fnUntraced(function* <A>(document: A, inWords: (document: A) => string = readable) {
  const json = yield* Json
  yield* print(Stream.make(`${json ? JSON.stringify(document) : inWords(document)}\n`))
})
