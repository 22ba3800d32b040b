/**
 * Sets the cells of moved accounts in running HAProxy processes. Their runtime API changes the map in memory immediately. The map file
 * for a proxy's start is written by `cell haproxy --map`.
 */
import { connect } from "node:net"
import { Effect } from "effect"
import { CellProblem } from "./CellProblem.ts"

/** The name of the map's file (haproxy.ts). */
export const MAP_NAME = "cells.map"

const ANSWER_LIMIT_MS = 5_000

/** Sends one command to a socket, `HOST:PORT` or a path. Returns the answer. */
const command = (address: string, text: string): Effect.Effect<string, CellProblem> =>
  Effect.callback((resume) => {
    const fail = (reason: string) =>
      resume(Effect.fail(new CellProblem({ message: `--proxy: ${address} cannot be used: ${reason}.` })))
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

/** Reads the proxy's ID of the map (`#n`), found by its file name. */
const mapOf = Effect.fnUntraced(function* (address: string) {
  const maps = yield* command(address, "show map")
  const line = maps.split("\n").find((one) => one.includes(`/${MAP_NAME})`))
  const id = line === undefined ? undefined : /^(\d+) /.exec(line)?.[1]
  if (id === undefined) return yield* new CellProblem({ message: `--proxy: ${address} has no map named ${MAP_NAME}.` })
  return `#${id}`
})

/** Routes these keys to these cells in each proxy. Fails if a proxy cannot be reached, even with no entries. */
export const updateProxies = Effect.fnUntraced(function* (
  addresses: ReadonlyArray<string>,
  entries: ReadonlyArray<readonly [key: string, cell: string]>,
) {
  for (const address of addresses) {
    const map = yield* mapOf(address)
    for (const [key, cell] of entries) {
      // `set` before `add`: an existing entry is never missing, even for a moment.
      const answer = yield* command(address, `set map ${map} ${key} ${cell}`)
      const refusal = answer === "" ? "" : yield* command(address, `add map ${map} ${key} ${cell}`)
      if (refusal !== "") return yield* new CellProblem({ message: `--proxy: ${address} answered: ${refusal}` })
    }
  }
})
