/** A browser without scripts: keeps cookies, and sends the forms of the page that it shows. */
import { expect } from "vitest"
import { hiddenIn, type Shown, shownOf } from "./member.ts"

export interface Visitor {
  /** The content of a cookie; undefined: it has none. */
  readonly cookie: (name: string) => string | undefined
  readonly get: (path: string, headers?: Readonly<Record<string, string>>) => Promise<Shown>
  /** Sends a form with the secret of the last page that has one. */
  readonly post: (
    path: string,
    fields?: Readonly<Record<string, string>>,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Shown>
}

/** `headers` go with every request, such as the network address that a proxy adds. */
export const newVisitor = (origin: string, headers: Readonly<Record<string, string>> = {}): Visitor => {
  const cookies = new Map<string, string>()
  let formToken = ""
  const send = async (path: string, init: RequestInit & { readonly headers: Readonly<Record<string, string>> }) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ")
    const answer = await fetch(`${origin}${path}`, {
      ...init,
      redirect: "manual",
      headers: { accept: "text/html", cookie, ...headers, ...init.headers },
    })
    for (const set of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!
      if (value === "") cookies.delete(name!)
      else cookies.set(name!, value!)
    }
    const shown = await shownOf(answer)
    formToken = hiddenIn(shown.text).form_token ?? formToken
    return shown
  }
  return {
    cookie: (name) => cookies.get(name),
    get: (path, more = {}) => send(path, { headers: more }),
    post: (path, fields = {}, more = {}) =>
      send(path, { method: "POST", body: new URLSearchParams({ form_token: formToken, ...fields }), headers: more }),
  }
}

/** The code in a letter, which the page shows in development. */
export const codeIn = (text: string): string => /Your code is (\d{6})/.exec(text)![1]!

/** A code that is not the right one. */
export const wrongCode = (code: string): string => String((Number(code) + 1) % 1_000_000).padStart(6, "0")

/** Asks for a code, and shows the page that takes it. */
export const askForCode = async (visitor: Visitor, email: string, businessName?: string, next = ""): Promise<Shown> => {
  const path = businessName === undefined ? "/dashboard/sign-in" : "/dashboard/sign-up"
  await visitor.get(path)
  const sent = await visitor.post(path, {
    email,
    next,
    ...(businessName === undefined ? {} : { business_name: businessName }),
  })
  if (sent.location === null) return sent
  return visitor.get(sent.location)
}

/** Signs up in development. Returns the page with the keys. */
export const signUp = async (visitor: Visitor, email: string, businessName: string): Promise<Shown> => {
  const { text } = await askForCode(visitor, email, businessName)
  const welcome = await visitor.post("/dashboard/sign-in/code", { code: codeIn(text) })
  expect(welcome.status).toBe(201)
  return welcome
}

/** Signs in in development. Returns the response to the code. */
export const signIn = async (visitor: Visitor, email: string, next = ""): Promise<Shown> => {
  const { text } = await askForCode(visitor, email, undefined, next)
  return visitor.post("/dashboard/sign-in/code", { code: codeIn(text), next })
}
