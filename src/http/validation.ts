/** Decodes untrusted values to typed ones. A refusal names the first wrong parameter, by its path, and what it must be (decision A5). */
import { Effect, Result, Schema, SchemaAST, type SchemaIssue } from "effect"
import { type Problem, problem } from "../base/problem.ts"
import type { Declaration } from "./Endpoint.ts"

type Path = ReadonlyArray<PropertyKey>

interface Fault {
  readonly path: Path
  readonly kind: "missing" | "unknown" | "invalid"
  /** What the value must be, if the failed check says more than the description. */
  readonly must?: string | undefined
}

/** Returns the faults of an issue tree. A union without a matching member is one fault: its members' reasons would contradict each other. */
const faults = (issue: SchemaIssue.Issue, path: Path): ReadonlyArray<Fault> => {
  switch (issue._tag) {
    case "Pointer":
      return faults(issue.issue, [...path, ...issue.path])
    case "Composite":
      return issue.issues.flatMap((inner) => faults(inner, path))
    case "AnyOf": {
      // `null | object`: the object's own faults say more than "not an object".
      const inner = issue.issues
        .flatMap((one) => faults(one, path))
        .filter((fault) => fault.path.length > path.length || fault.must !== undefined)
      return inner.length > 0 ? inner : [{ path, kind: "invalid" }]
    }
    case "Filter":
      return faults(issue.issue, path)
    case "InvalidValue":
      return [{ path, kind: "invalid", must: issue.annotations?.message }]
    case "MissingKey":
      return [{ path, kind: "missing" }]
    case "UnexpectedKey":
      return [{ path, kind: "unknown" }]
    default:
      return [{ path, kind: "invalid" }]
  }
}

/** Formats a path: `retry_logic.max_attempts`, `enabled_events[2]`, `metadata[color]`. */
const paramName = (path: Path): string =>
  path.reduce<string>((name, part, index) => {
    if (index === 0) return String(part)
    return typeof part === "number" || path[0] === "metadata" ? `${name}[${String(part)}]` : `${name}.${String(part)}`
  }, "")

/** Returns the deepest description on `path`: it says what the value there must be. */
const description = (ast: SchemaAST.AST, path: Path): string | undefined => {
  const members = ast._tag === "Union" ? ast.types : [ast]
  const own =
    SchemaAST.resolveDescription(ast) ??
    members.map((member) => SchemaAST.resolveDescription(member)).find((found) => found !== undefined)
  if (path.length === 0) return own
  const [head, ...rest] = path
  for (const member of members) {
    const inner =
      member._tag === "Objects"
        ? (member.propertySignatures.find(({ name }) => name === head)?.type ?? member.indexSignatures[0]?.type)
        : member._tag === "Arrays"
          ? member.rest[0]
          : undefined
    if (inner !== undefined) return description(inner, rest) ?? own
  }
  return own
}

/** A tree of faults by the keys of their paths. */
interface Branch {
  fault: Fault | undefined
  readonly inner: Map<PropertyKey, Branch>
}

const newBranch = (): Branch => ({ fault: undefined, inner: new Map() })

const tree = (all: ReadonlyArray<Fault>): Branch => {
  const root = newBranch()
  for (const fault of all) {
    let at = root
    for (const key of fault.path) {
      const next = at.inner.get(key) ?? newBranch()
      at.inner.set(key, next)
      at = next
    }
    at.fault ??= fault
  }
  return root
}

const keysOf = (value: unknown): ReadonlyArray<PropertyKey> =>
  Array.isArray(value) ? [...value.keys()] : typeof value === "object" && value !== null ? Object.keys(value) : []

/** Returns the first fault in the order of the document. It visits each key once at most. */
const firstIn = ({ fault, inner }: Branch, document: unknown): Fault | undefined => {
  if (fault !== undefined || inner.size === 0) return fault
  const key = keysOf(document).find((name) => inner.has(name))
  // A faulty key is usually in the document. If it is not, any fault is as good as another.
  const [next, value] =
    key === undefined
      ? [inner.values().next().value!, undefined]
      : [inner.get(key)!, (document as Record<PropertyKey, unknown>)[key]]
  return firstIn(next, value)
}

const first = (all: ReadonlyArray<Fault>, document: unknown): Fault =>
  firstIn(tree(all.filter(({ kind }) => kind !== "missing")), document) ?? all[0]!

const toProblem = (fault: Fault, ast: SchemaAST.AST): Problem => {
  const param = paramName(fault.path)
  const must = fault.must ?? description(ast, fault.path)
  switch (fault.kind) {
    case "missing":
      return problem("parameter_missing", `${param} is required${must === undefined ? "" : `: ${must}`}.`, param)
    case "unknown":
      return problem("parameter_unknown", `There is no parameter ${param} here.`, param)
    case "invalid":
      return problem(
        "parameter_invalid",
        `${param === "" ? "The body" : param} must be ${must ?? "of another type"}.`,
        param || null,
      )
  }
}

/** Puts the keys of a decoded value in the order of the document: later checks follow it too. */
const inOrder = <A>(decoded: A, document: unknown): A => {
  if (typeof decoded !== "object" || decoded === null) return decoded
  const names = keysOf(document).filter((name) => name in decoded)
  return Object.assign(Object.fromEntries(names.map((name) => [name, undefined])), decoded)
}

/**
 * The result of validation. `right`: the document's parameters before the first fault, in its order. `decoded`: the whole document,
 * or that fault. `before`: if no present parameter is wrong but one is missing, the schema's parameters before it, in the schema's
 * order, since a handler may miss one of these first.
 */
export interface Validated<A> {
  readonly right: ReadonlyArray<string>
  readonly before: ReadonlyArray<string>
  readonly decoded: Effect.Effect<A, Problem>
}

type Judge = (value: unknown) => Validated<unknown>

/** The names of a body's parameters, in the order of its schema. */
const propertiesOf = (ast: SchemaAST.AST): ReadonlyArray<string> =>
  ast._tag === "Objects" ? ast.propertySignatures.map(({ name }) => String(name)) : []

/** Makes the validation by `schema`. */
const judge = <A>(schema: Schema.Codec<A, unknown>): ((value: unknown) => Validated<A>) => {
  const decode = Schema.decodeUnknownResult(schema as Schema.Codec<A, unknown, never, never>, {
    errors: "all",
    onExcessProperty: "error",
  })
  const all = propertiesOf(schema.ast)
  return (value) => {
    const result = decode(value)
    const names = Object.keys(value as object)
    if (Result.isSuccess(result))
      return { right: names, before: all, decoded: Effect.succeed(inOrder(result.success, value)) }
    const found = faults(result.failure.issue, [])
    const fault = first(found, value)
    const faulty = new Set(found.map(({ path: [name] }) => name))
    const at = String(fault.path[0])
    const right = fault.kind === "missing" ? names : names.slice(0, Math.max(0, names.indexOf(at)))
    return {
      right: right.filter((name) => !faulty.has(name)),
      before: fault.kind === "missing" ? all.slice(0, Math.max(0, all.indexOf(at))) : [],
      decoded: Effect.fail(toProblem(fault, schema.ast)),
    }
  }
}

const judges = new WeakMap<Declaration, { readonly body: Judge; readonly query: Judge }>()

/** Validates for an endpoint without parameters: the first one is unknown (decision A4). */
const nothing = (value: unknown): Validated<unknown> => {
  const [name] = Object.keys(value as object)
  const decoded =
    name === undefined
      ? Effect.succeed({})
      : Effect.fail(problem("parameter_unknown", `There is no parameter ${name} here.`, name))
  return { right: [], before: [], decoded }
}

/** Returns the validations of an endpoint's body and query, made once. */
export const validatorsOf = (declaration: Declaration) => {
  let found = judges.get(declaration)
  if (found === undefined) {
    const { body, query } = declaration
    found = {
      body: body === undefined ? nothing : judge(body),
      query: query === undefined ? nothing : judge(query),
    }
    judges.set(declaration, found)
  }
  return found
}
