/** Defines the wire schema of transitions, and the endpoint of timelines (decision S3). */
import { Schema } from "effect"
import { declare } from "../http/Endpoint.ts"
import { pageFields } from "../http/lists.ts"
import { exampleId, instant, open } from "../http/response.ts"
import type { Scope } from "../security/key/scopes.ts"

const { Array: ArrayOf, Int, Literal, Literals, NullOr, String: Text, Struct } = Schema

export const CAUSES = ["api", "dashboard", "page", "timer", "clock", "rail", "system"] as const

export const Transition = Struct({
  object: Literal("transition"),
  id: Text,
  version: Int,
  at: instant,
  event: open.annotate({ description: "The event of the machine: its type (`after x` is a timer) and its fields" }),
  from: Text,
  to: Text,
  status_before: NullOr(Text),
  status_after: NullOr(Text),
  cause: Struct({
    kind: Literals(CAUSES),
    request_id: NullOr(Text),
    key: NullOr(Text),
    member: NullOr(Text),
  }),
  charges: ArrayOf(Text),
  refunds: ArrayOf(Text),
  ledger_entries: ArrayOf(Text),
  nudges: ArrayOf(Text),
  events: ArrayOf(Text),
}).annotate({
  identifier: "transition",
  examples: [
    {
      object: "transition",
      id: `${exampleId("subscription")}:2`,
      version: 2,
      at: "2026-11-01T09:00:00.000Z",
      event: { type: "charge.succeeded", at: "2026-11-01T09:00:00.000Z" },
      from: "opening",
      to: "active.current",
      status_before: "incomplete",
      status_after: "active",
      cause: { kind: "rail", request_id: null, key: null, member: null },
      charges: [],
      refunds: [],
      ledger_entries: [exampleId("ledger_entry")],
      nudges: [],
      events: [exampleId("event")],
    },
  ],
})

/** The declaration of the timeline of `noun`, such as "a charge". */
export const timelineEndpoint = <const Path extends string, const Access extends Scope>(
  noun: string,
  path: Path,
  access: Access,
) =>
  declare({
    method: "GET",
    path,
    access,
    summary: `List the transitions of ${noun}, newest first`,
    notes:
      "Every transition of its machine: the event, its cause, and the IDs of what it created. meta.upcoming of the first page lists the timers that wait.",
    query: Struct(pageFields),
    status: 200,
    list: true,
    meta: "timeline_meta",
    success: Transition,
    codes: ["resource_missing"],
  })
