/** Members of an account in the tests: signed in, without a browser. */
import { newId } from "../../src/base/ids.ts"
import { formTokenOf } from "../../src/dashboard/forms.ts"
import { startSession } from "../../src/merchants/member/sessions.ts"
import type { Role } from "../../src/security/role/rights.ts"
import type { TestDatabase } from "./database.ts"

/** A response of the dashboard. */
export interface Shown {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Where it redirects to; null: nowhere. */
  readonly location: string | null
}

export interface Member {
  readonly id: string
  readonly email: string
  readonly cookie: string
  readonly formToken: string
  /** Loads a page, such as `/dashboard/sandbox/customers`. */
  readonly get: (path: string, headers?: Readonly<Record<string, string>>) => Promise<Shown>
  /** Sends a form with the session's token. A list of values: several fields of one name. */
  readonly post: (
    path: string,
    fields?: Readonly<Record<string, string | ReadonlyArray<string>>>,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Shown>
}

export const shownOf = async (answer: Response): Promise<Shown> => ({
  status: answer.status,
  headers: answer.headers,
  text: await answer.text(),
  location: answer.headers.get("location"),
})

/** Adds a member with this role to an account; returns the ID. */
export const addMember = async (
  { run }: Pick<TestDatabase, "run">,
  account: string,
  role: Role,
  email: string,
): Promise<string> => {
  const id = newId("member")
  await run(
    (sql) => sql`
      INSERT INTO member (account_id, livemode, id, email, role, created_at, joined_at)
      VALUES (${account}, true, ${id}, ${email}, ${role}, now(), now())`,
  )
  return id
}

/** Adds a member with this role to an account, and signs them in. */
export const signedIn = async (
  database: Pick<TestDatabase, "run">,
  origin: string,
  account: string,
  role: Role = "owner",
  email = `${role}-${newId("member").slice(-8)}@fit.example`,
): Promise<Member> => {
  const id = await addMember(database, account, role, email)
  const from = { network: "127.0.0.1", browser: "test" }
  const session = await database.run(() => startSession(email, "code", from, undefined, account))
  const { cookie } = session!
  const formToken = formTokenOf(cookie, account)
  const send = async (path: string, init: RequestInit & { headers?: Readonly<Record<string, string>> }) =>
    shownOf(
      await fetch(`${origin}${path}`, {
        ...init,
        redirect: "manual",
        headers: { accept: "text/html", cookie: `session=${cookie}`, ...init.headers },
      }),
    )
  return {
    id,
    email,
    cookie,
    formToken,
    get: (path, headers = {}) => send(path, { headers }),
    post: (path, fields = {}, headers = {}) => {
      const body = new URLSearchParams({ form_token: formToken })
      for (const [name, value] of Object.entries(fields))
        for (const one of [value].flat() as ReadonlyArray<string>) body.append(name, one)
      return send(path, { method: "POST", body, headers })
    },
  }
}

/** The values of the hidden fields of a page's forms, by name: the last of each. */
export const hiddenIn = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(([, name, value]) => [
      name!,
      value!,
    ]),
  )

/** Does an action as a member does: fills in the form, looks at what it will do, and confirms it. Returns the page that follows. */
export const act = async (
  member: Member,
  path: string,
  fields: Readonly<Record<string, string | ReadonlyArray<string>>> = {},
): Promise<Shown> => {
  const form = await member.get(path)
  const { attempt = "" } = hiddenIn(form.text)
  const review = await member.post(path, { ...fields, attempt, intent: "review" })
  const { reviewed } = hiddenIn(review.text)
  return reviewed === undefined ? review : member.post(path, { ...fields, attempt, reviewed, intent: "confirm" })
}
