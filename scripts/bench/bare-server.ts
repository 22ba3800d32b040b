/** The reference of the benchmarks: node:http, JSON and one prepared statement per request, nothing else. */
import { randomUUID } from "node:crypto"
import { createServer } from "node:http"
import pg from "pg"

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 16 })
const { rows } = await pool.query("SELECT id FROM account WHERE id <> 'acct_service' LIMIT 1")
const account = rows[0].id as string

const INSERT =
  "INSERT INTO customer (account_id, livemode, id, name, email, phone, metadata, created_at) VALUES ($1, false, $2, $3, $4, $5, $6, now()) RETURNING *"
const SELECT = "SELECT * FROM customer WHERE account_id = $1 AND NOT livemode AND id = $2"

const server = createServer((request, response) => {
  const answer = (status: number, row: object) => {
    const text = JSON.stringify({ success: true, data: row })
    response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(text) })
    response.end(text)
  }
  if (request.method === "GET") {
    const id = request.url!.split("/").at(-1)
    void pool.query({ name: "get", text: SELECT, values: [account, id] }).then(({ rows: [row] }) => answer(200, row))
    return
  }
  let text = ""
  request.on("data", (chunk) => {
    text += chunk
  })
  request.on("end", () => {
    const { name, email, phone, metadata } = JSON.parse(text)
    void pool
      .query({ name: "insert", text: INSERT, values: [account, `cus_${randomUUID()}`, name, email, phone, metadata] })
      .then(({ rows: [row] }) => answer(201, row))
  })
})

server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`Live: http://127.0.0.1:${(server.address() as { port: number }).port}/v1\n`)
})
