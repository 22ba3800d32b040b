/** Calls the API as a merchant's engineer does: HTTP with a key. */
import { Agent, type Dispatcher, request as http } from "undici"

/** `fetch` is several times slower. */
const dispatcher = new Agent()

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, as any client does
  readonly body: any
}

export interface Api {
  readonly request: (
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Answer>
  readonly get: (path: string) => Promise<Answer>
  readonly post: (path: string, body?: unknown, headers?: Readonly<Record<string, string>>) => Promise<Answer>
  readonly patch: (path: string, body?: unknown) => Promise<Answer>
  readonly delete: (path: string) => Promise<Answer>
  /** Every object of a list, newest first. */
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly all: (path: string) => Promise<ReadonlyArray<any>>
}

const MAX_PAGE = 100

export const createApi = (
  origin: string,
  key: string | undefined,
  environment: "sandbox" | "live" = "sandbox",
): Api => {
  const root = `${origin}${environment === "sandbox" ? "/sandbox/v1" : "/v1"}`
  const request: Api["request"] = async (method, path, body, headers = {}) => {
    const response = await http(root + path, {
      dispatcher,
      method: method as Dispatcher.HttpMethod,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    })
    const text = await response.body.text()
    return {
      status: response.statusCode,
      headers: new Headers(response.headers as Record<string, string>),
      body: text === "" ? undefined : JSON.parse(text),
    }
  }
  return {
    request,
    get: (path) => request("GET", path),
    post: (path, body, headers) => request("POST", path, body, headers),
    patch: (path, body) => request("PATCH", path, body),
    delete: (path) => request("DELETE", path),
    all: async (path) => {
      const found = []
      for (let cursor = ""; ; ) {
        const { body } = await request("GET", `${path}${path.includes("?") ? "&" : "?"}limit=${MAX_PAGE}${cursor}`)
        if (body.data === undefined) throw new Error(`GET ${path}: ${JSON.stringify(body)}`)
        found.push(...body.data)
        if (!body.meta.has_more) return found
        cursor = `&starting_after=${body.meta.next_cursor}`
      }
    },
  }
}
