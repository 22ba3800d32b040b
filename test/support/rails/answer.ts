/** Sends an answer: whole, distorted, or not at all. */
import type { ServerResponse } from "node:http"
import type { BrokenAnswer, DistortedAnswer } from "./fault.ts"
import { encode, type Reply, type Wire } from "./wire.ts"

const TRY_AGAIN_LATER = "<!doctype html><title>Try again later</title><h1>Try again later</h1>"

const JSON_HEADERS = { "content-type": "application/json; charset=utf-8" }

const send = (
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  text: string,
): void => void response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(text) }).end(text)

export const sendReply = (response: ServerResponse, { status, body }: Reply): void =>
  send(response, status, JSON_HEADERS, encode(body))

export const sendPage = (response: ServerResponse, status: number, page: string): void =>
  send(response, status, { "content-type": "text/html; charset=utf-8" }, page)

/** Gives every value a wrong type, and keeps the fields. */
const mistyped = (value: unknown): unknown => {
  if (Array.isArray(value)) return "a list"
  if (value === null) return []
  switch (typeof value) {
    case "object":
      return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, mistyped(part)]))
    case "string":
      return { text: value.length }
    case "boolean":
      return "perhaps"
    default:
      return "many"
  }
}

/** The same under another reference, everywhere in the answer. */
const renamed = (value: unknown, other: string): unknown =>
  typeof value !== "object" || value === null || Array.isArray(value)
    ? value
    : Object.fromEntries(
        Object.entries(value).map(([name, part]) => [
          name,
          name === "reference" || name === "tx_ref" ? other : renamed(part, other),
        ]),
      )

/** Answers without reading the books. */
const sendBroken = (response: ServerResponse, answer: BrokenAnswer, wire: Wire): void => {
  if (answer === "hang") return
  if (answer === "cut") response.socket?.destroy()
  else if (answer === "unauthorized") sendReply(response, wire.unauthorized)
  else if ("html" in answer) sendPage(response, answer.html, TRY_AGAIN_LATER)
  else if ("status" in answer) sendReply(response, wire.unavailable(answer.status))
  else {
    const headers = answer.tooMany === null ? {} : { "retry-after": String(answer.tooMany) }
    send(response, 429, { ...JSON_HEADERS, ...headers }, encode(wire.tooMany.body))
  }
}

/** `other`: another transaction's reference. */
const sendDistorted = (response: ServerResponse, answer: DistortedAnswer, reply: Reply, other: string): void => {
  const text = encode(reply.body)
  const half = text.slice(0, Math.ceil(text.length / 2))
  switch (answer) {
    case "truncated_json":
      send(response, reply.status, JSON_HEADERS, half)
      break
    case "cut_body":
      response.writeHead(reply.status, { ...JSON_HEADERS, "content-length": Buffer.byteLength(text) })
      response.write(half, () => response.socket?.destroy())
      break
    case "wrong_types":
      sendReply(response, { status: reply.status, body: mistyped(reply.body) })
      break
    case "wrong_reference":
      sendReply(response, { status: reply.status, body: renamed(reply.body, other) })
  }
}

const isDistorted = (answer: BrokenAnswer | DistortedAnswer): answer is DistortedAnswer =>
  answer === "truncated_json" || answer === "cut_body" || answer === "wrong_types" || answer === "wrong_reference"

/** `reply`: the true answer. undefined if the call did not reach the books. */
export const sendAnswer = (
  response: ServerResponse,
  wire: Wire,
  reply: Reply | undefined,
  answer: BrokenAnswer | DistortedAnswer | undefined,
  otherReference: () => string,
): void => {
  if (answer !== undefined && !isDistorted(answer)) sendBroken(response, answer, wire)
  else if (reply === undefined) sendReply(response, wire.unavailable(503))
  else if (answer === undefined) sendReply(response, reply)
  else sendDistorted(response, answer, reply, otherReference())
}
