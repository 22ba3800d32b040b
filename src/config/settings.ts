/**
 * The kinds of settings that there are. Each is read from the ConfigProvider, where one that is empty counts as absent;
 * one whose value cannot be fails with the line to print.
 */
import { readFileSync } from "node:fs"
import { Config, Effect, Redacted, Schema, SchemaTransformation } from "effect"
import { ConfigProblem } from "./Config.ts"

/** What looks like an e-mail address. */
export const EMAIL = /^[^\s@<>]+@[^\s@<>]+$/

/** Ports are 16 bits. */
export const MAX_PORT = 65_535

/** Whether the port at an address's end, where there is one, can be: `[::1]:53`, `10.0.0.1:3000`, `:8080`, `10.0.0.1`. */
export const portFits = (address: string): boolean => Number(/:(\d+)$/.exec(address)?.[1] ?? 1) <= MAX_PORT

/** A setting as it is written, or undefined. Nothing can be wrong with it: an environment is always there to be read. */
export const text = (name: string): Effect.Effect<string | undefined> =>
  Effect.orDie(Config.withDefault(Config.String(name), undefined))

/** What `kind` makes of a setting, or `otherwise` where it is absent; `refusal` is the line for a value it cannot take. */
const decoded = Effect.fnUntraced(function* <T, const D>(
  name: string,
  kind: Schema.ConstraintCodec<T, string>,
  otherwise: D,
  refusal: (value: string) => string,
): Effect.fn.Return<T | D, ConfigProblem> {
  const value = yield* text(name)
  if (value === undefined) return otherwise
  return yield* Effect.mapError(Schema.decodeEffect(kind)(value), () => new ConfigProblem({ message: refusal(value) }))
})

/** A setting that must look like something, or undefined; `refusal` is the line for one that does not. */
export const textLike = (
  name: string,
  looksRight: (value: string) => boolean,
  refusal: (value: string) => string,
): Effect.Effect<string | undefined, ConfigProblem> =>
  decoded(name, Schema.String.check(Schema.makeFilter(looksRight)), undefined, refusal)

/** Six digits at most: no `1e3`, no `0x10`, no sign. */
const Digits = Schema.String.check(Schema.isPattern(/^\d{1,6}$/))

/** A whole number, or `otherwise` where the setting is absent. */
export const integer = <const D extends number | undefined>(
  name: string,
  minimum: number,
  maximum: number,
  otherwise: D,
): Effect.Effect<number | D, ConfigProblem> =>
  decoded(
    name,
    Digits.pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString),
    ),
    otherwise,
    (value) => `${name} must be a whole number from ${minimum} to ${maximum}, not "${value}".`,
  )

/** One of the words that a setting takes. */
export const choice = <const T extends string>(
  name: string,
  among: ReadonlyArray<T>,
  otherwise: T,
): Effect.Effect<T, ConfigProblem> =>
  decoded(
    name,
    Schema.Literals(among),
    otherwise,
    (value) => `${name} must be one of ${among.join(", ")}, not "${value}".`,
  )

/** `true` or `false`, and no other way of saying it. */
export const flag = (name: string, otherwise: boolean): Effect.Effect<boolean, ConfigProblem> =>
  decoded(
    name,
    Schema.Literals(["true", "false"]),
    otherwise ? "true" : "false",
    (value) => `${name} must be true or false, not "${value}".`,
  ).pipe(Effect.map((value) => value === "true"))

/** A URL, or undefined. The line for one that cannot be leaves its value out: there may be a password in it. */
export const url = (name: string, protocols: ReadonlyArray<string>): Effect.Effect<string | undefined, ConfigProblem> =>
  textLike(
    name,
    (value) => URL.canParse(value) && protocols.includes(new URL(value).protocol),
    () => `${name} must be a URL starting with ${protocols.map((protocol) => `${protocol}//`).join(" or ")}.`,
  )

/** Whether a host is this machine itself: what goes there crosses no network. IPv6 may stand in brackets, as in URLs. */
export const isLoopback = (host: string): boolean =>
  /^(localhost|::1|\[::1\])$/.test(host) || /^127(\.\d{1,3}){3}$/.test(host)

/** A URL of https, or of http too where nobody can listen in or this is not production. */
export const webUrl = Effect.fnUntraced(function* (
  name: string,
  production: boolean,
): Effect.fn.Return<string | undefined, ConfigProblem> {
  const found = yield* url(name, ["http:", "https:"])
  if (found === undefined || !production) return found
  const { protocol, hostname } = new URL(found)
  if (protocol === "https:" || isLoopback(hostname)) return found
  return yield* new ConfigProblem({ message: `${name} must begin with https:// where NODE_ENV=production.` })
})

/** What is in the file that a setting names, or undefined where it names none. */
export const file = Effect.fnUntraced(function* (name: string): Effect.fn.Return<string | undefined, ConfigProblem> {
  const path = yield* text(name)
  if (path === undefined) return undefined
  const written = yield* Effect.try({
    try: () => readFileSync(path, "utf8"),
    catch: () => new ConfigProblem({ message: `${name} names a file that cannot be read: ${path}.` }),
  })
  // It was meant to hold something: a key that is made instead would open nothing.
  if (written.trim() === "")
    return yield* new ConfigProblem({ message: `${name} names a file that is empty: ${path}.` })
  return written
})

/** A secret, from the setting or from the file that `NAME_FILE` names. */
export const secret = Effect.fnUntraced(function* (
  name: string,
): Effect.fn.Return<Redacted.Redacted<string> | undefined, ConfigProblem> {
  const [given, written] = [yield* text(name), (yield* file(`${name}_FILE`))?.trim()]
  if (given !== undefined && written !== undefined)
    return yield* new ConfigProblem({ message: `${name} and ${name}_FILE are both set: leave one of them out.` })
  const value = given ?? written
  return value === undefined ? undefined : Redacted.make(value)
})

type Complete<T> = { readonly [K in keyof T]: NonNullable<T[K]> }

const isComplete = <T extends object>(settings: T): settings is T & Complete<T> =>
  Object.values(settings).every((value) => value !== undefined)

/** Settings that only make sense together, by their names: all of them, or undefined where none is set. */
export const together = <T extends Readonly<Record<string, unknown>>>(
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
