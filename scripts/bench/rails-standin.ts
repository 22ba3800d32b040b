/**
 * The rail of the benchmarks: reports every charge as succeeded after DELAY_MS, in the format of Paystack or Flutterwave. If the secret key
 * ends in `hang`, every call takes HANG_MS.
 */
import { createServer } from "node:http"

const delayMs = Number(process.env.DELAY_MS)
const hangMs = Number(process.env.HANG_MS)

let number = 1_000_000

interface ChargeRequest {
  readonly reference?: string
  readonly tx_ref?: string
  readonly amount?: number
}

const answerTo = (path: string, { reference, tx_ref, amount }: ChargeRequest): object =>
  path.startsWith("/v3/")
    ? {
        status: "success",
        message: "Charge successful",
        data: { id: number++, tx_ref, amount, currency: "NGN", status: "successful", processor_response: "Approved" },
      }
    : {
        status: true,
        message: "Charge attempted",
        data: { id: number++, reference, amount, currency: "NGN", status: "success", gateway_response: "Approved" },
      }

const server = createServer((request, response) => {
  const parts: Array<Buffer> = []
  request.on("data", (part: Buffer) => parts.push(part))
  request.on("end", () => {
    const hangs = request.headers.authorization?.endsWith("hang") === true
    const text = Buffer.concat(parts).toString()
    const answer = JSON.stringify(answerTo(request.url ?? "", text === "" ? {} : JSON.parse(text)))
    const timer = setTimeout(
      () => response.writeHead(200, { "content-type": "application/json" }).end(answer),
      hangs ? hangMs : delayMs,
    )
    response.once("close", () => clearTimeout(timer))
  })
})

server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`Live: http://127.0.0.1:${(server.address() as { port: number }).port}/v1\n`)
})

// The parent process has ended.
process.once("disconnect", () => process.exit(0))
