/**
 * The kinds of settings. Each is read from the ConfigProvider, in which an empty value counts as absent. A wrong value fails with
 * the line to print.
 */
import { readFileSync } from "node:fs"
import { Config, Effect, Redacted, Schema, SchemaTransformation } from "effect"
import { ConfigProblem } from "./Config.ts"

/** A text that looks like an e-mail address. */
export const EMAIL = /^[^\s@<>]+@[^\s@<>]+$/

/** Ports are 16 bits. */
export const MAX_PORT = 65_535

/** Whether an address ends with a possible port, or with none: `[::1]:53`, `10.0.0.1:3000`, `:8080`, `10.0.0.1`. */
export const portFits = (address: string): boolean => Number(/:(\d+)$/.exec(address)?.[1] ?? 1) <= MAX_PORT

/** Reads a setting as text, or undefined. It cannot fail: the environment can always be read. */
export const text = (name: string): Effect.Effect<string | undefined> =>
  Effect.orDie(Config.withDefault(Config.String(name), undefined))

/** Decodes a setting by `kind`, or returns `fallback` if it is absent. `refusal` is the line for a wrong value. */
const decoded = Effect.fnUntraced(function* <T, const D>(
  name: string,
  kind: Schema.ConstraintCodec<T, string>,
  fallback: D,
  refusal: (value: string) => string,
): Effect.fn.Return<T | D, ConfigProblem> {
  const value = yield* text(name)
  if (value === undefined) return fallback
  return yield* Effect.mapError(Schema.decodeEffect(kind)(value), () => new ConfigProblem({ message: refusal(value) }))
})

/** Reads a text that must pass `looksRight`, or undefined. `refusal` is the line for a wrong value. */
export const textLike = (
  name: string,
  looksRight: (value: string) => boolean,
  refusal: (value: string) => string,
): Effect.Effect<string | undefined, ConfigProblem> =>
  decoded(name, Schema.String.check(Schema.makeFilter(looksRight)), undefined, refusal)

/** One to six digits: no `1e3`, no `0x10`, no sign. */
const Digits = Schema.String.check(Schema.isPattern(/^\d{1,6}$/))

/** Reads a whole number, or returns `fallback` if the setting is absent. */
export const integer = <const D extends number | undefined>(
  name: string,
  minimum: number,
  maximum: number,
  fallback: D,
): Effect.Effect<number | D, ConfigProblem> =>
  decoded(
    name,
    Digits.pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString),
    ),
    fallback,
    (value) => `${name} must be a whole number from ${minimum} to ${maximum}, not "${value}".`,
  )

/** Reads one of the words that a setting accepts. */
export const choice = <const T extends string>(
  name: string,
  among: ReadonlyArray<T>,
  fallback: T,
): Effect.Effect<T, ConfigProblem> =>
  decoded(
    name,
    Schema.Literals(among),
    fallback,
    (value) => `${name} must be one of ${among.join(", ")}, not "${value}".`,
  )

/** Reads `true` or `false`; no other spelling is accepted. */
export const flag = (name: string, fallback: boolean): Effect.Effect<boolean, ConfigProblem> =>
  decoded(
    name,
    Schema.Literals(["true", "false"]),
    fallback ? "true" : "false",
    (value) => `${name} must be true or false, not "${value}".`,
  ).pipe(Effect.map((value) => value === "true"))

/** Reads a URL, or undefined. The refusal leaves the value out, because it may contain a password. */
export const url = (name: string, protocols: ReadonlyArray<string>): Effect.Effect<string | undefined, ConfigProblem> =>
  textLike(
    name,
    (value) => URL.canParse(value) && protocols.includes(new URL(value).protocol),
    () => `${name} must be a URL starting with ${protocols.map((protocol) => `${protocol}//`).join(" or ")}.`,
  )

/** Whether a host is this machine: traffic to it crosses no network. IPv6 may be in brackets, as in URLs. */
export const isLoopback = (host: string): boolean =>
  /^(localhost|::1|\[::1\])$/.test(host) || /^127(\.\d{1,3}){3}$/.test(host)

/** Reads a URL with https. It may have http for this machine, and anywhere outside production. */
export const webUrl = Effect.fnUntraced(function* (
  name: string,
  production: boolean,
): Effect.fn.Return<string | undefined, ConfigProblem> {
  const found = yield* url(name, ["http:", "https:"])
  if (found === undefined || !production) return found
  const { protocol, hostname } = new URL(found)
  if (protocol === "https:" || isLoopback(hostname)) return found
  return yield* new ConfigProblem({ message: `${name} must begin with https:// when NODE_ENV=production.` })
})

/** Reads the file that a setting names, or undefined if it names none. */
export const file = Effect.fnUntraced(function* (name: string): Effect.fn.Return<string | undefined, ConfigProblem> {
  const path = yield* text(name)
  if (path === undefined) return undefined
  const content = yield* Effect.try({
    try: () => readFileSync(path, "utf8"),
    catch: () => new ConfigProblem({ message: `${name} names a file that cannot be read: ${path}.` }),
  })
  // The file should contain a key. A new key in its place could not open existing secrets.
  if (content.trim() === "")
    return yield* new ConfigProblem({ message: `${name} names a file that is empty: ${path}.` })
  return content
})

/** Reads a secret from the setting, or from the file that `NAME_FILE` names. */
export const secret = Effect.fnUntraced(function* (
  name: string,
): Effect.fn.Return<Redacted.Redacted<string> | undefined, ConfigProblem> {
  const [fromSetting, fromFile] = [yield* text(name), (yield* file(`${name}_FILE`))?.trim()]
  if (fromSetting !== undefined && fromFile !== undefined)
    return yield* new ConfigProblem({ message: `${name} and ${name}_FILE are both set: leave one of them out.` })
  const value = fromSetting ?? fromFile
  return value === undefined ? undefined : Redacted.make(value)
})

type Complete<T> = { readonly [K in keyof T]: NonNullable<T[K]> }

const isComplete = <T extends object>(settings: T): settings is T & Complete<T> =>
  Object.values(settings).every((value) => value !== undefined)

/** Settings that only work together, by name: returns all of them, or undefined if none is set; fails if only some are. */
export const allOrNone = <T extends Readonly<Record<string, unknown>>>(
  settings: T,
): Effect.Effect<Complete<T> | undefined, ConfigProblem> => {
  if (isComplete(settings)) return Effect.succeed(settings)
  const names = Object.keys(settings)
  const missing = names.filter((name) => settings[name] === undefined)
  if (missing.length === names.length) return Effect.undefined
  return Effect.fail(
    new ConfigProblem({ message: `${names.join(", ")} go together: ${missing.join(", ")} is not set.` }),
  )
}
