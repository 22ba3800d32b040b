/** Parses query strings: plain parameters, `expand[]`, `metadata[key]`, `dry_run` and `assume`. A repeated or unknown parameter is refused. */
import { invalid, type Problem } from "../base/problem.ts"
import { ASSUMPTIONS, type DryRunOptions } from "./DryRun.ts"
import { type Declaration, takesCell } from "./Endpoint.ts"
import { queryParameters } from "./escapes.ts"
import { expansionFault } from "./expand.ts"

/** The parameters of a query before the first wrong one, and the fault of that one. */
export interface ParsedQuery {
  readonly expand: ReadonlyArray<string>
  readonly values: Readonly<Record<string, unknown>>
  /** Undefined: a real request. */
  readonly dryRun?: DryRunOptions
  readonly fault?: Problem
}

/** The parameters of a dry run, which stand beside those of the endpoint. */
const DRY_RUN = { dry_run: ["true", "false"], assume: ASSUMPTIONS } as const

const METADATA = /^metadata\[(.+)\]$/s

export const parseQuery = (search: string, declaration: Declaration): ParsedQuery => {
  const expand: Array<string> = []
  const values: Record<string, unknown> = Object.create(null)
  const dry: { dry_run?: string; assume?: string } = {}
  const upTo = (fault?: Problem): ParsedQuery => ({
    expand: [...new Set(expand)],
    values: { ...values },
    ...(dry.dry_run === "true" ? { dryRun: { assume: ASSUMPTIONS.find((one) => one === dry.assume) } } : {}),
    ...(fault === undefined ? {} : { fault }),
  })
  for (const parameter of queryParameters(search)) {
    if ("fault" in parameter) return upTo(parameter.fault)
    const { name, value } = parameter
    if (`${name}${value}`.includes("\0"))
      return upTo(invalid(name.replaceAll("\0", ""), "A parameter contains a NUL character."))
    // For the proxy that routed the request here (decision O2).
    if (name === "cell" && takesCell(declaration)) continue
    if (declaration.dryRun === true && (name === "dry_run" || name === "assume")) {
      if (dry[name] !== undefined) return upTo(invalid(name, `${name} is given twice.`))
      const allowed: ReadonlyArray<string> = DRY_RUN[name]
      if (!allowed.includes(value)) return upTo(invalid(name, `${name} must be ${allowed.join(" or ")}.`))
      dry[name] = value
      continue
    }
    if (name === "expand[]") {
      expand.push(value)
      const fault = expansionFault(expand, declaration)
      if (fault !== undefined) return upTo(fault)
      continue
    }
    const key = METADATA.exec(name)?.[1]
    if (key !== undefined && declaration.metadataFilter === true) {
      if (values.metadata !== undefined) return upTo(invalid(name, "A list can be filtered by one metadata key."))
      values.metadata = { [key]: value }
      continue
    }
    if (name === "metadata" && declaration.metadataFilter === true)
      return upTo(invalid(name, "A list is filtered by one key of metadata: write metadata[key]=value."))
    if (name in values) return upTo(invalid(name, `${name} is given twice.`))
    values[name] = value
  }
  if (dry.assume !== undefined && dry.dry_run !== "true")
    return upTo(invalid("assume", "assume belongs to a dry run: add dry_run=true."))
  return upTo()
}
