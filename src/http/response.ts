/**
 * The parts of responses. A response is a schema in its noun's `api.ts`, annotated with its name (`identifier`) and an example:
 * its type is the type that the renderer returns, and the OpenAPI document shows it.
 */
import { Schema, SchemaAST } from "effect"
import { type IdKind, isId, kindOf, PREFIXES } from "../base/ids.ts"
import type { Json } from "../base/json.ts"
import { formatInstant, parseInstant } from "../base/time.ts"

const { Boolean: Bool, Int, Literal, Record: Dictionary, String: Text, Unknown, Union } = Schema

export const instant = Text.annotate({
  description: "An instant in UTC: YYYY-MM-DDTHH:MM:SS.sssZ",
  format: "date-time",
})
export const kobo = Int.annotate({ description: "An amount in kobo" })
export const metadata = Dictionary(Text, Text)
/** An object with any fields. */
export const open = Dictionary(Text, Unknown)
export const idOrObject = Union([Text, open]).annotate({ description: "An ID, or the object if it is expanded" })

/** The fields that every object has. */
export const common = <const Name extends string>(object: Name) => ({
  id: Text,
  object: Literal(object),
  livemode: Bool,
  created_at: instant,
})

/** Renders the fields that every object has, from its row. */
export const commonOf = <const Name extends string>(
  object: Name,
  { id, livemode, created_at }: { readonly id: string; readonly livemode: boolean; readonly created_at: number },
) => ({ id, object, livemode, created_at: formatInstant(created_at) })

/** Returns the name of a response's schema in the OpenAPI document. */
export const nameOf = (schema: Schema.Top): string => {
  const name = SchemaAST.resolveIdentifier(schema.ast)
  if (name === undefined) throw new Error("A response's schema needs a name: see src/http/response.ts.")
  return name
}

/** Returns a response's example. */
export const exampleOf = (schema: Schema.Top): Json => {
  const [example] = (SchemaAST.resolve(schema.ast)?.examples ?? []) as ReadonlyArray<Json>
  if (example === undefined) throw new Error(`The response ${nameOf(schema)} has no example: see src/http/response.ts.`)
  return example
}

/** The instant of the examples. */
export const EXAMPLE_AT = Date.UTC(2026, 10, 1, 9)

/** Returns the ID of a kind in examples: one for each kind, in the right form. */
export const exampleId = (kind: IdKind): string => `${PREFIXES[kind]}_01m7yyp0a6e08v7r97jkyz1pj0`

/** Replaces an example's instant by the corresponding one at `at`, and its ID by a new one. */
const freshText = (text: string, at: number, idOf: (kind: IdKind) => string): string => {
  const kind = kindOf(text)
  if (kind !== undefined && isId(kind, text)) return idOf(kind)
  const instant = parseInstant(text)
  return instant === undefined ? text : formatInstant(instant - EXAMPLE_AT + at)
}

/** Renders a response's example as if it were created at `at`, with one ID from `newId` for each kind. */
export const freshExample = (schema: Schema.Top, at: number, newId: (kind: IdKind) => string): Json => {
  const ids = new Map<IdKind, string>()
  const idOf = (kind: IdKind): string => {
    const id = ids.get(kind) ?? newId(kind)
    ids.set(kind, id)
    return id
  }
  const fresh = (value: unknown): unknown => {
    if (typeof value === "string") return freshText(value, at, idOf)
    if (Array.isArray(value)) return value.map(fresh)
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, fresh(inner)]))
  }
  return fresh(exampleOf(schema)) as Json
}

/** The response to the deletion of an object. */
export const Deleted = Schema.Struct({ id: Text, object: Text, livemode: Bool, deleted: Literal(true) }).annotate({
  identifier: "deleted",
  examples: [{ id: exampleId("test_clock"), object: "test_clock", livemode: false, deleted: true }],
})

export const deleted = (object: string, { livemode, id }: { readonly livemode: boolean; readonly id: string }) => ({
  id,
  object,
  livemode,
  deleted: true as const,
})
