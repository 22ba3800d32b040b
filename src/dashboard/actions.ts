/**
 * Actions of the dashboard: forms that call a verb of the API. An action shows what it will do, by a dry run of the same verb, before it is
 * confirmed (decisions R6, R10). It needs no script: the form is sent twice, first to review and then to confirm.
 */
import { hash } from "node:crypto"
import { Effect, type Schema } from "effect"
import type { SqlError } from "effect/sql"
import type { Json } from "../base/json.ts"
import { isProblem, type Problem } from "../base/problem.ts"
import { rightOf } from "../http/access.ts"
import type { Declaration } from "../http/Endpoint.ts"
import type { MemberCalls } from "../http/memberCalls.ts"
import type { PublicResponse } from "../http/publicRoutes.ts"
import { newAttempt } from "../merchants/member/tokens.ts"
import { actionMain } from "../pages/dashboard/action.ts"
import { type Field, NOTHING_WRONG, type Typed, type Wrong } from "../pages/dashboard/fields.ts"
import { type Changes, NO_CHANGES } from "../pages/dashboard/review.ts"
import type { Html } from "../pages/html.ts"
import type { Form } from "./forms.ts"
import { type Input, readInputs } from "./inputs.ts"
import { call, goTo, memberPage, show, type Viewer } from "./pages.ts"

type Result<A> = Effect.Effect<A, Problem | SqlError.SqlError, MemberCalls>

/** What an action works on, as the pages that show it have read it. */
export interface Subject {
  /** The heading of the page, such as "Pause Gold for Ada Obi". */
  readonly title: string
  /** What it does, in a sentence; null: the title says it. */
  readonly about: Html | string | null
  /** The fields as they are filled in at first. */
  readonly initial: Typed
  /** The page that the action was called from. */
  readonly backTo: string
  readonly fields: ReadonlyArray<Input>
}

export interface Action {
  /** The path under `/dashboard/{environment}`, such as `/subscriptions/:id/pause`. */
  readonly path: string
  readonly declaration: Declaration<unknown, unknown, Schema.Top, boolean>
  readonly subject: (viewer: Viewer) => Result<Subject>
  /** The page that stands in its place until the address says what it is about, such as the customer; undefined: it does. */
  readonly instead?: (viewer: Viewer) => Result<PublicResponse | undefined>
  /** Segments of the endpoint's path, by default those of the page. */
  readonly params?: (viewer: Viewer) => Readonly<Record<string, string>>
  /** Parts of the body that no field has. */
  readonly fixed?: (viewer: Viewer) => Json
  readonly button: string
  readonly isDanger?: boolean
  readonly isSensitive?: boolean
  /** The page after it; or a page that shows the result, such as a secret that is shown once. */
  readonly done: (viewer: Viewer, result: Json) => string | Result<PublicResponse>
}

const digest = (value: unknown): string => hash("sha256", JSON.stringify(value), "base64url")

/** What a member has seen before confirming: the body, and the money that moves. */
const reviewedOf = (body: Json, { charges, refunds, ledger_entries }: Changes): string =>
  digest([body, charges.map(({ amount, status }) => [amount, status]), refunds.length, ledger_entries])

interface Shown {
  readonly typed: Typed
  readonly wrong?: Wrong
  readonly refusal?: string | null
  readonly review?: { readonly changes: Changes; readonly body: Json } | null
  /** The number of this try, which makes a second click harmless. */
  readonly attempt?: string
  readonly status?: number
  readonly hasChanged?: boolean
}

/** The address of the page with its query, which says what the action is about. */
const addressOf = ({ path, search }: Viewer): string => (search.size === 0 ? path : `${path}?${search}`)

/** A message that begins with the parameter's name, as it reads at its field. */
const spoken = (message: string, param: string): string =>
  message.startsWith(`${param} `) ? `This ${message.slice(param.length + 1)}` : message

/** Where a refusal belongs: the field that its parameter names, or the whole form. */
const placed = ({ param, message }: Problem, fields: ReadonlyArray<Field>) => {
  const name = param?.replaceAll(/\[[^\]]*\]/g, "")
  const field = fields.find((one) => name !== undefined && (one.name === name || name.startsWith(`${one.name}.`)))
  return field === undefined
    ? { refusal: message, wrong: NOTHING_WRONG }
    : { refusal: null, wrong: new Map([[field.name, spoken(message, param!)]]) }
}

/** Makes the page of an action. */
export const actionPage = (action: Action) => {
  const { declaration, button, isDanger = false, isSensitive = false } = action
  const { instead = () => Effect.succeed(undefined) } = action
  const hasDryRun = declaration.dryRun === true

  const showForm = (viewer: Viewer, subject: Subject, shown: Shown): PublicResponse => {
    const { typed, wrong = NOTHING_WRONG, refusal = null, review = null, status = 200, hasChanged = false } = shown
    const { title, about, backTo, fields } = subject
    const main = actionMain({
      title,
      about,
      backTo,
      fields,
      typed,
      wrong,
      refusal,
      button,
      isDanger,
      path: addressOf(viewer),
      formToken: viewer.formToken,
      attempt: shown.attempt ?? newAttempt(),
      hasReview: hasDryRun,
      review: review === null ? null : { changes: review.changes, reviewed: reviewedOf(review.body, review.changes) },
      hasChanged,
    })
    return show(viewer, title, main, status)
  }

  const inputOf = (viewer: Viewer, body: Json) => ({ params: action.params?.(viewer) ?? viewer.params, body })

  /** Tries the verb without doing it. */
  const tryOut = (viewer: Viewer, body: Json): Result<Changes> =>
    hasDryRun
      ? Effect.map(
          call(viewer, declaration, { ...inputOf(viewer, body), dryRun: { assume: null } }),
          ({ meta }) => meta.changes as Changes,
        )
      : Effect.succeed(NO_CHANGES)

  const refused = (viewer: Viewer, subject: Subject, typed: Typed, attempt?: string) => (problem: Problem) =>
    Effect.succeed(
      showForm(viewer, subject, {
        typed,
        ...placed(problem, subject.fields),
        status: problem.status,
        ...(attempt === undefined ? {} : { attempt }),
      }),
    )

  const read = (viewer: Viewer, subject: Subject, form: Form) => {
    const { body, wrong } = readInputs(subject.fields, form)
    return { body: { ...body, ...action.fixed?.(viewer) }, wrong }
  }

  const submit = Effect.fnUntraced(function* (viewer: Viewer, form: Form) {
    const other = yield* instead(viewer)
    if (other !== undefined) return other
    const subject = yield* action.subject(viewer)
    const { body, wrong } = read(viewer, subject, form)
    const { typed } = form
    const attempt = form.get("attempt")
    if (wrong.size > 0) return showForm(viewer, subject, { typed, wrong, status: 400, attempt })
    const isConfirmed = form.get("intent") === "confirm"
    const doing = Effect.gen(function* () {
      const changes = yield* tryOut(viewer, body)
      const isAsSeen = form.get("reviewed") === reviewedOf(body, changes)
      if (hasDryRun && !(isConfirmed && isAsSeen))
        return showForm(viewer, subject, { typed, review: { changes, body }, attempt, hasChanged: isConfirmed })
      const { data } = yield* call(viewer, declaration, { ...inputOf(viewer, body), idempotencyKey: `form ${attempt}` })
      const next = action.done(viewer, data as Json)
      return typeof next === "string" ? goTo(next) : yield* next
    })
    return yield* Effect.catchIf(doing, isProblem, refused(viewer, subject, typed, attempt))
  })

  /** Shows the form. Without fields there is nothing to fill in: the review is shown at once. */
  const open = Effect.fnUntraced(function* (viewer: Viewer) {
    const other = yield* instead(viewer)
    if (other !== undefined) return other
    const subject = yield* action.subject(viewer)
    const { initial: typed } = subject
    if (subject.fields.length > 0 || !hasDryRun) return showForm(viewer, subject, { typed })
    const body = action.fixed?.(viewer) ?? {}
    const trying = Effect.map(tryOut(viewer, body), (changes) =>
      showForm(viewer, subject, { typed, review: { changes, body } }),
    )
    return yield* Effect.catchIf(trying, isProblem, refused(viewer, subject, typed))
  })

  return memberPage(
    `/dashboard/:environment${action.path}`,
    { right: rightOf(declaration), isSensitive },
    { GET: open, POST: submit },
  )
}
