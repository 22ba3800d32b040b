/**
 * Telling HAProxy where accounts live that have moved: by its runtime API, which changes the map in its memory at once. What a
 * proxy begins with is written by `cell haproxy --map`.
 */
import { connect } from "node:net"
import { Effect } from "effect"
import { CellsApart } from "./CellsApart.ts"

/** What the map's file is called (haproxy.ts). */
export const MAP_NAME = "cells.map"

const ANSWER_LIMIT_MS = 5_000

/** Sends one command to a socket, `HOST:PORT` or a path; returns what is answered. */
const command = (address: string, text: string): Effect.Effect<string, CellsApart> =>
  Effect.callback((resume) => {
    const fail = (reason: string) =>
      resume(Effect.fail(new CellsApart({ message: `--proxy: ${address} cannot be used: ${reason}.` })))
    const [, host, port] = /^(.+):(\d+)$/.exec(address) ?? []
    const socket = port === undefined ? connect(address) : connect(Number(port), host!)
    let answer = ""
    socket.setTimeout(ANSWER_LIMIT_MS, () => socket.destroy(new Error("no answer")))
    socket.on("data", (part) => {
      answer += part
    })
    socket.on("error", ({ message }) => fail(message))
    socket.on("end", () => resume(Effect.succeed(answer.trim())))
    socket.end(`${text}\n`)
  })

/** The map as the proxy calls it, by the file that it was read from. */
const mapOf = Effect.fnUntraced(function* (address: string) {
  const maps = yield* command(address, "show map")
  const line = maps.split("\n").find((one) => one.includes(`/${MAP_NAME})`))
  const id = line === undefined ? undefined : /^(\d+) /.exec(line)?.[1]
  if (id === undefined)
    return yield* new CellsApart({ message: `--proxy: ${address} has no map that is called ${MAP_NAME}.` })
  return `#${id}`
})

/** Has proxies send what they know by these keys to these cells from now on; fails where one cannot be told, without keys too. */
export const tellProxies = Effect.fnUntraced(function* (
  addresses: ReadonlyArray<string>,
  entries: ReadonlyArray<readonly [key: string, cell: string]>,
) {
  for (const address of addresses) {
    const map = yield* mapOf(address)
    for (const [key, cell] of entries) {
      // There is no moment without an entry where there was one.
      const answer = yield* command(address, `set map ${map} ${key} ${cell}`)
      const refused = answer === "" ? "" : yield* command(address, `add map ${map} ${key} ${cell}`)
      if (refused !== "") return yield* new CellsApart({ message: `--proxy: ${address} says: ${refused}` })
    }
  }
})
