/** The output of commands: one document, as JSON or text, or a text stream. */
import { Data, Effect, Stream } from "effect"
import { Flag, GlobalFlag } from "effect/cli"

/** `--json`, allowed anywhere on the command line. Its optional value keeps it from consuming the next argument. */
export const Json = GlobalFlag.Setting("json")({
  flag: Flag.Boolean("json").pipe(
    Flag.withOptionalValue("true"),
    Flag.withoutNegation,
    Flag.withDefault(false),
    Flag.withDescription("Print one JSON document"),
  ),
})

class NotWritten extends Data.TaggedError("NotWritten")<{ readonly message: string; readonly code: unknown }> {}

/** Writes `text` and waits until the stream has accepted it: a slow reader slows the writer down. */
export const writeTo = (stream: NodeJS.WriteStream, text: string): Effect.Effect<void, NotWritten> =>
  Effect.callback((resume) => {
    stream.write(text, (error?: NodeJS.ErrnoException | null) => {
      if (error) resume(Effect.fail(new NotWritten({ message: error.message, code: error.code })))
      else resume(Effect.void)
    })
  })

/** Writes texts to standard output as they arrive. If the reader stops (`| head`), the output ends without an error. */
export const print = <E, R>(texts: Stream.Stream<string, E, R>): Effect.Effect<void, E | NotWritten, R> =>
  texts.pipe(
    Stream.runForEach((text) => writeTo(process.stdout, text)),
    Effect.catchIf(
      (error) => error instanceof NotWritten && error.code === "EPIPE",
      () => Effect.void,
    ),
  )

/** Formats a document as text: one `name: value` line per field, nested values as JSON. */
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

/** Prints the document of a command to standard output: as JSON, or as text by `inWords`. */
export const show = Effect.fnUntraced(function* <A>(document: A, inWords: (document: A) => string = readable) {
  const json = yield* Json
  yield* print(Stream.make(`${json ? JSON.stringify(document) : inWords(document)}\n`))
})
