/**
 * The webhook receiver of the benchmarks: answers 200 immediately, `/slow` after a while, `/hang` never; `/count` returns how many arrived and
 * when the last one did.
 */
import { createServer } from "node:http"

const SLOW_MS = 10_000

let count = 0
let lastAt = 0
/** When each delivery of `/timed` arrived, by the event's ID. */
const arrivals = new Map<string, number>()

const server = createServer((request, response) => {
  if (request.url === "/count") {
    response.end(JSON.stringify({ count, lastAt, arrivals: Object.fromEntries(arrivals) }))
    count = 0
    arrivals.clear()
    return
  }
  request.resume()
  request.on("end", () => {
    if (request.url === "/hang") return
    if (request.url === "/slow") {
      setTimeout(() => response.writeHead(200).end(), SLOW_MS)
      return
    }
    count++
    lastAt = Date.now()
    if (request.url === "/timed") arrivals.set(String(request.headers["webhook-id"]), lastAt)
    response.writeHead(200).end()
  })
})

server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`Live: http://127.0.0.1:${(server.address() as { port: number }).port}/v1\n`)
})
