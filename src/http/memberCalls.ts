/**
 * MemberCalls calls endpoints of the API for members of accounts, in the dashboard (decision R6): the same validation, handlers, dry runs and
 * idempotency as for requests with a key. It checks the member's right, and counts nothing towards the allowance.
 */

import type { Schema } from "effect"
import { Context, Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Json } from "../base/json.ts"
import { type Problem, problem } from "../base/problem.ts"
import type { Tenant } from "../db/tenant.ts"
import { levelOf, requireRight, requireVertical, rightOf } from "./access.ts"
import type { MemberCaller } from "./callers.ts"
import type { Assumption } from "./DryRun.ts"
import type { Declaration, Endpoint } from "./Endpoint.ts"
import { execute } from "./execution.ts"
import type { Expanders } from "./expand.ts"

/** The member who calls, for which environment, and from where. */
export interface CallingMember {
  readonly tenant: Tenant
  readonly caller: MemberCaller
  /** Whether live access of the account is approved: without it, nothing is written in live. */
  readonly isLiveApproved: boolean
  readonly address: string
  readonly requestId: string
}

export interface Input {
  /** The `:name` segments of the path. */
  readonly params?: Readonly<Record<string, string>>
  /** Parameters of the query that are given; undefined ones are left out. */
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly expand?: ReadonlyArray<string>
  readonly body?: Json
  readonly idempotencyKey?: string
  /** A dry run, with an assumption about payments or null. */
  readonly dryRun?: { readonly assume: Assumption | null }
}

/** The response of a call: its object (or objects), and its `meta`. */
export interface Answer<A> {
  readonly data: A
  readonly meta: Json
}

type Shown<Success extends Schema.Top, List extends boolean> = List extends true
  ? ReadonlyArray<Success["Type"]>
  : Success["Type"]

export class MemberCalls extends Context.Service<
  MemberCalls,
  {
    /** Calls an endpoint. Fails with its refusal, or with `role_insufficient`. */
    readonly call: <Body, Query, Success extends Schema.Top, List extends boolean>(
      member: CallingMember,
      declaration: Declaration<Body, Query, Success, List>,
      input?: Input,
    ) => Effect.Effect<Answer<Shown<Success, List>>, Problem | SqlError.SqlError>
  }
>()("billing/http/MemberCalls") {}

const LIVE_ACCESS_REQUIRED = problem("live_access_required", "Live access of this account is not enabled.")

const searchOf = ({ query = {}, expand = [], dryRun }: Input): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.append(name, value)
  for (const field of expand) search.append("expand[]", field)
  if (dryRun !== undefined) search.append("dry_run", "true")
  if (dryRun?.assume != null) search.append("assume", dryRun.assume)
  const text = search.toString()
  return text === "" ? "" : `?${text}`
}

const pathOf = (path: string, params: Readonly<Record<string, string>>, livemode: boolean): string =>
  `${livemode ? "" : "/sandbox"}/v1${path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ""))}`

/** Makes the service for these endpoints. */
export const memberCalls = <R>(endpoints: ReadonlyArray<Endpoint<R>>, expanders: Expanders) =>
  Effect.gen(function* () {
    const byDeclaration = new Map(endpoints.map((endpoint) => [endpoint.declaration, endpoint]))
    const call = Effect.fnUntraced(function* (
      { tenant, caller, isLiveApproved, address, requestId }: CallingMember,
      declaration: Declaration,
      input: Input = {},
    ) {
      const endpoint = byDeclaration.get(declaration)!
      const { params = {}, body = {}, idempotencyKey } = input
      yield* requireRight(caller.role, rightOf(declaration), tenant.livemode)
      if (tenant.livemode && declaration.sandboxOnly === true)
        return yield* problem("route_missing", "This exists in the sandbox only.")
      if (tenant.livemode && !isLiveApproved && levelOf(declaration) === "write") return yield* LIVE_ACCESS_REQUIRED
      yield* requireVertical(declaration, tenant)
      const reply = yield* execute(
        {
          match: { endpoint, params },
          asker: caller,
          tenant,
          address,
          requestId,
          path: pathOf(declaration.path, params, tenant.livemode),
          search: searchOf(input),
          raw: body,
          idempotencyKey,
        },
        expanders,
      )
      const { data, meta = {} } = JSON.parse(reply.body) as { readonly data: unknown; readonly meta?: Json }
      return { data, meta }
    })
    return yield* Effect.map(Effect.context<Effect.Services<ReturnType<typeof call>>>(), (context) =>
      MemberCalls.of({
        // The endpoint's declaration gives the type of its response.
        call: ((...args: Parameters<typeof call>) =>
          Effect.provide(call(...args), context)) as MemberCalls["Service"]["call"],
      }),
    )
  })
