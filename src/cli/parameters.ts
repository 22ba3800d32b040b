/** The options and arguments of commands. A placeholder stands for the value in a command's usage. */
import { Effect, Schema } from "effect"
import { Argument, CliError, Flag } from "effect/cli"
import { hasControls, isVisible } from "../base/text.ts"
import { parseInstant } from "../base/time.ts"
import { isDatabaseUrl } from "../config/database.ts"
import { portFits } from "../config/settings.ts"

/** An option with a visible text. */
export const text = (name: string, placeholder: string) =>
  Flag.String(name).pipe(
    Flag.filter(isVisible, () => "a text that is not all blank"),
    Flag.withMetavar(placeholder),
  )

/** The API's limit for names, in characters. */
const MAX_NAME = 120

/** An option with a name that the API accepts (decision A5). */
export const nameOption = (name: string, placeholder: string) =>
  text(name, placeholder).pipe(
    Flag.filter(
      (value) => [...value].length <= MAX_NAME && !hasControls(value),
      () => `a text of at most ${MAX_NAME} characters, without control characters`,
    ),
  )

/** An option with one of the allowed values. */
export const oneOf = <const Allowed extends ReadonlyArray<string>>(
  name: string,
  allowed: Allowed,
  placeholder: string = allowed.join("|"),
) => Flag.Literals(name, allowed).pipe(Flag.withMetavar(placeholder))

/** An argument with one of the allowed values. */
export const oneOfArgument = <const Allowed extends ReadonlyArray<string>>(
  name: string,
  allowed: Allowed,
  placeholder: string = allowed.join("|"),
) => Argument.Literals(name, allowed).pipe(Argument.withMetavar(placeholder))

export const accountArgument = Argument.String("ACCOUNT")

export const accountOption = text("account", "A")

/** Reads an e-mail address. The API's validation is loaded only when needed. */
const readEmail = (name: string, kind: "flag" | "argument") =>
  Effect.fnUntraced(function* (value: string) {
    const { email } = yield* Effect.promise(() => import("../http/parameters.ts"))
    if (Schema.is(email)(value)) return value
    const expected = "an e-mail address such as owner@shop.example"
    return yield* new CliError.InvalidValue({ option: name, value, expected, kind })
  })

/** An option with an e-mail address. */
export const emailOption = (name: string) =>
  Flag.String(name).pipe(Flag.mapEffect(readEmail(name, "flag")), Flag.withMetavar("E"))

/** An argument with an e-mail address. */
export const emailArgument = Argument.String("EMAIL").pipe(Argument.mapEffect(readEmail("EMAIL", "argument")))

/** Whether a text is a valid month of the books: `YYYY-MM`. */
export const isMonth = (value: string): boolean => parseInstant(`${value}-01T00:00:00Z`) !== undefined

/** An option with a month: `YYYY-MM`. */
export const month = (name: string) => text(name, "YYYY-MM").pipe(Flag.filter(isMonth, () => "a month such as 2026-01"))

/** An option with a day: `YYYY-MM-DD`. */
export const day = (name: string) =>
  text(name, "YYYY-MM-DD").pipe(
    Flag.filter(
      (value) => parseInstant(`${value}T00:00:00Z`) !== undefined,
      () => "a day such as 2026-01-31",
    ),
  )

/** An option with an instant: `YYYY-MM-DDTHH:MM:SSZ`, as ms since the epoch. */
export const instant = (name: string) =>
  text(name, "INSTANT").pipe(
    Flag.filter(
      (value) => parseInstant(value) !== undefined,
      () => "an instant such as 2026-01-31T09:00:00Z",
    ),
    Flag.map((value) => parseInstant(value)!),
  )

/** An option with the address of another cell's database, in the form of DATABASE_URL. */
export const databaseOption = (name: string) =>
  text(name, "URL").pipe(Flag.filter(isDatabaseUrl, () => "the address of a database, postgres://…"))

/** An option with a listening address. */
export const listening = (name: string) =>
  text(name, "HOST:PORT").pipe(
    Flag.filter(
      (value) => /^[\w.[\]:-]*:\d{1,5}$/.test(value) && portFits(value),
      () => "HOST:PORT, or :PORT",
    ),
  )
