/** What exists in the sandbox only: its reset, and the check that a page of it is not asked for in live. */
import { Effect } from "effect"
import { problem } from "../base/problem.ts"
import { sandboxApi } from "../sandbox/api.ts"
import { actionPage } from "./actions.ts"
import { type Viewer, withNotice } from "./pages.ts"

const SANDBOX_ONLY = problem("resource_missing", "This exists in the sandbox only.")

/** Answers a page that exists in the sandbox only. */
export const inSandbox =
  <A, E, R>(work: (viewer: Viewer) => Effect.Effect<A, E, R>) =>
  (viewer: Viewer) =>
    viewer.environment === "sandbox" ? work(viewer) : Effect.fail(SANDBOX_ONLY)

const reset = actionPage({
  path: "/reset",
  declaration: sandboxApi.reset,
  subject: inSandbox(({ base }) =>
    Effect.succeed({
      title: "Reset the sandbox",
      about:
        "Deletes all data of the sandbox: customers, plans, subscriptions, charges, events, books and test clocks. Keys and webhook endpoints stay. Live is not touched.",
      initial: new Map(),
      backTo: `${base}/clocks`,
      fields: [{ name: "confirm", label: "Type RESET", kind: "text", isRequired: true, whenEmpty: "empty" }],
    }),
  ),
  button: "Delete all data of the sandbox",
  isDanger: true,
  done: ({ base }) => withNotice(base, "resetting"),
})

export const sandboxRoutes = [reset]
