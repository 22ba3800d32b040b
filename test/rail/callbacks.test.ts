/** Tests rails' callbacks: which are authenticated, and what is recorded (decisions P12, P13). */
import { createHmac } from "node:crypto"
import { connect } from "node:net"
import { Effect, Redacted } from "effect"
import { beforeAll, beforeEach, describe, expect, it } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { replaceCredentials } from "../../src/rails/credential/credentials.ts"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import { useOwnInstance } from "../support/instance.ts"
import { startServer } from "../support/server.ts"
import { eventually } from "../support/story.ts"

const { database, server, accountId } = useOwnInstance(() => ({
  LOG_LEVEL: "info",
  LOG_FORMAT: "json",
  // Recorded callbacks stay.
  WORKERS: "0",
}))

const SECRET = "sk_live_of_callbacks"
const HASH = "hash_of_callbacks"

const give = (id: string, rail: OutsideRail, fields: Readonly<Record<string, string>>) =>
  database.run(() =>
    replaceCredentials(
      id,
      rail,
      Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, Redacted.make(value)])),
    ).pipe(Effect.provide(Vault.layer(KEYS))),
  )

beforeAll(async () => {
  await give(accountId(), "paystack", { secret_key: SECRET })
  await give(accountId(), "flutterwave", { secret_key: "FLWSECK-of-callbacks", webhook_secret: HASH })
})
beforeEach(() => database.run((sql) => sql`DELETE FROM rail_callback`))

const noted = () =>
  database.run(
    (sql) => sql<{ account: string; livemode: boolean; rail: string; reference: string }>`
      SELECT account_id AS account, livemode, rail, reference FROM rail_callback ORDER BY rail, reference`,
  )
const row = (rail: OutsideRail, reference: string) => ({ account: accountId(), livemode: true, rail, reference })

type Headers = Readonly<Record<string, string>>

const post = async (path: string, body: string | Buffer, headers: Headers = {}, { origin } = server()) => {
  const answer = await fetch(`${origin}/callbacks/${path}`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", ...headers },
  })
  const text = await answer.text()
  return { status: answer.status, text, code: answer.status === 200 ? undefined : JSON.parse(text).error.code }
}

const byPaystack = (body: string | Buffer, secret = SECRET): Headers => ({
  "x-paystack-signature": createHmac("sha512", secret).update(body).digest("hex"),
})
const byFlutterwave = (body: string | Buffer, secret = HASH): Headers => ({
  "flutterwave-signature": createHmac("sha256", secret).update(body).digest("base64"),
})

const success = (reference: string) =>
  JSON.stringify({ event: "charge.success", data: { reference, status: "success", amount: 500_000 } })
const completed = (tx_ref: string) =>
  JSON.stringify({ event: "charge.completed", data: { tx_ref, status: "successful", amount: 5_000 } })

const paystack = (body: string | Buffer, headers = byPaystack(body)) => post(`paystack/${accountId()}`, body, headers)
const flutterwave = (body: string | Buffer, headers = byFlutterwave(body)) =>
  post(`flutterwave/${accountId()}`, body, headers)

const UNSIGNED = { status: 401, code: "signature_invalid" }

describe("a callback with a valid signature", () => {
  it("is recorded before it is answered, with each rail's signature scheme", async () => {
    expect((await paystack(success("chg-paystack"))).status).toBe(200)
    expect(await noted()).toEqual([row("paystack", "chg_paystack")])
    expect((await flutterwave(completed("ref-flutterwave-1"))).status).toBe(200)
    const older = await flutterwave(completed("ref-flutterwave-2"), { "verif-hash": HASH })
    expect(older.status).toBe(200)
    expect(await noted()).toEqual([
      row("flutterwave", "ref-flutterwave-1"),
      row("flutterwave", "ref-flutterwave-2"),
      row("paystack", "chg_paystack"),
    ])
  })

  it("is recorded at an address that ends with a slash (A13)", async () => {
    const body = success("ref.slash")
    expect((await post(`paystack/${accountId()}/`, body, byPaystack(body))).status).toBe(200)
    expect(await noted()).toEqual([row("paystack", "ref.slash")])
    expect((await post(`paystack/${accountId()}//`, body, byPaystack(body))).status).not.toBe(200)
  })

  it("is recorded with any content type or none, and for unused events", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", ""]) {
      const body = success(`ref.type-${type.length}`)
      expect((await paystack(body, { ...byPaystack(body), "content-type": type })).status).toBe(200)
    }
    const body = JSON.stringify({ event: "transfer.reversed", data: { reference: "ref.unused" } })
    expect((await paystack(body)).status).toBe(200)
    expect(await noted()).toHaveLength(5)
  })

  it("is answered and ignored if it is not JSON or names no reference, and its body is in no log", async () => {
    const before = server().output().length
    for (const body of [
      "",
      "not JSON, said the rail in secret",
      '{"event": "charge.success", "data": {"reference": "ref.cut-in-secret"',
      `${success("ref.trailing-in-secret")} garbage`,
      "null",
      "[]",
      '"secret"',
      "{}",
      '{"event": "charge.success"}',
      '{"event": "charge.success", "data": null}',
      '{"event": "charge.success", "data": {"reference": 5}}',
      '{"event": "charge.success", "data": {"reference": ""}}',
      '{"event": "charge.success", "data": {"reference": "a\\u0000b"}}',
      success("secret".repeat(40)),
      success("r".repeat(201)),
      success("é"),
      Buffer.from([0xff, 0xfe, 0x00, 0x7b, 0x7d]),
    ])
      expect([String(body).slice(0, 40), (await paystack(body)).status]).toEqual([String(body).slice(0, 40), 200])
    expect(await noted()).toEqual([])
    // A text of at most a reference's length is a reference.
    expect((await paystack(success("r".repeat(200)))).status).toBe(200)
    expect(await noted()).toEqual([row("paystack", "r".repeat(200))])
    const log = server().output().slice(before)
    expect(log.match(/names no reference/g)?.length).toBeGreaterThanOrEqual(17)
    for (const hidden of ["in secret", "ref.cut", "secretsecret", SECRET, HASH]) expect(log).not.toContain(hidden)
  })

  it("is one row for any number of copies, 500 at the same time, and none is refused", async () => {
    const low = await startServer(database.url(), { WORKERS: "0", RATE_LIMIT_PUBLIC: "2" })
    const burst = async (bodies: ReadonlyArray<string>) => {
      const send = (body: string, n: number) =>
        post(`paystack/${accountId()}`, body, byPaystack(body), n % 2 === 0 ? low : server())
      return new Set((await Promise.all(bodies.map(send))).map(({ status }) => status))
    }
    try {
      expect(await burst(Array.from({ length: 500 }, () => success("ref.again")))).toEqual(new Set([200]))
      expect(await noted()).toEqual([row("paystack", "ref.again")])
      expect(await burst(Array.from({ length: 500 }, (_, n) => success(`ref.${n % 250}`)))).toEqual(new Set([200]))
      expect(await noted()).toHaveLength(251)
      // A forged one counts against its address, and signed ones do not.
      const forge = () => post(`paystack/${accountId()}`, success("ref.forged"), {}, low)
      const forged = await Promise.all(Array.from({ length: 40 }, forge))
      expect(new Set(forged.map(({ status }) => status))).toEqual(new Set([401, 429]))
      expect(await burst(Array.from({ length: 20 }, (_, n) => success(`ref.after-${n}`)))).toEqual(new Set([200]))
    } finally {
      await low.stop()
    }
    expect(await noted()).toHaveLength(271)
  })
})

describe("a callback without a valid signature", () => {
  const body = success("ref.forged")
  const refusedBy = async (path: string, headers: Headers, sent: string | Buffer = body) => {
    expect(await post(path, sent, headers)).toMatchObject(UNSIGNED)
  }

  it("is refused, for any error in the signature", async () => {
    const right = byPaystack(body)["x-paystack-signature"]!
    for (const headers of [
      {},
      { "x-paystack-signature": "" },
      { "x-paystack-signature": right.slice(0, -1) },
      { "x-paystack-signature": `${right}0` },
      { "x-paystack-signature": `${right.slice(0, -1)}${right.endsWith("0") ? "1" : "0"}` },
      { "x-paystack-signature": createHmac("sha256", SECRET).update(body).digest("hex") },
      { "x-paystack-signature": createHmac("sha512", SECRET).update(body).digest("base64") },
      { "x-paystack-signature": SECRET },
      byPaystack(body, "sk_live_of_another_merchant"),
      byPaystack(`${body} `),
      byFlutterwave(body),
      { "verif-hash": HASH },
    ])
      await refusedBy(`paystack/${accountId()}`, headers)
    const account = accountId()
    for (const headers of [
      {},
      { "verif-hash": "" },
      { "verif-hash": HASH.slice(1) },
      { "verif-hash": `${HASH}x` },
      { "flutterwave-signature": HASH },
      byFlutterwave(body, "FLWSECK-of-callbacks"),
      byFlutterwave(`${body}\n`),
      { "flutterwave-signature": createHmac("sha256", HASH).update(body).digest("hex") },
      byPaystack(body),
    ])
      await refusedBy(`flutterwave/${account}`, headers)
    expect(await noted()).toEqual([])
  })

  it("is refused for an account that does not exist, is another one or is not on that rail", async () => {
    const { account: other } = await database.run(() => createAccount({ businessName: "Other" }))
    const { account: bare } = await database.run(() => createAccount({ businessName: "Bare" }))
    await give(other.id, "paystack", { secret_key: "sk_live_of_another" })
    for (const account of [
      other.id,
      bare.id,
      "acct_nowhere",
      "acct_service",
      "all",
      "%00",
      "acct_%F0%9F%92%A9",
      "a%2Fb",
    ])
      await refusedBy(`paystack/${account}`, byPaystack(body))
    await refusedBy(`paystack/${accountId()}`, byPaystack(body, "sk_live_of_another"))
    await refusedBy(`flutterwave/${other.id}`, byFlutterwave(body))
    // A body without a possible signature is not read, however large.
    await refusedBy(`paystack/${bare.id}`, byPaystack(body), "x".repeat(1024 * 1024))
    expect(await noted()).toEqual([])
  })

  it("gets the usual error", async () => {
    const answer = await fetch(`${server().origin}/callbacks/paystack/${accountId()}`, { method: "POST", body })
    const { success, error } = (await answer.json()) as { success: boolean; error: Readonly<Record<string, unknown>> }
    expect([answer.status, success]).toEqual([401, false])
    expect(error).toEqual({
      type: "authentication_error",
      code: "signature_invalid",
      message: expect.any(String),
      param: null,
      request_id: answer.headers.get("x-request-id"),
      doc_url: `${server().origin}/docs/errors#signature_invalid`,
    })
  })
})

describe("a body", () => {
  const KIB = 1024
  const padded = (size: number) => {
    const bare = success("ref.large")
    return bare + " ".repeat(size - bare.length)
  }

  it("may have at most 256 KiB, with or without Content-Length", async () => {
    const [fits, over] = [padded(256 * KIB), padded(256 * KIB + 1)]
    expect((await paystack(fits)).status).toBe(200)
    expect(await noted()).toEqual([row("paystack", "ref.large")])
    expect(await paystack(over)).toMatchObject({ status: 400, code: "request_too_large" })

    // In pieces, so that only reading them reveals the size.
    const { hostname, port } = new URL(server().origin)
    const head = [
      `POST /callbacks/paystack/${accountId()} HTTP/1.1`,
      `Host: ${hostname}`,
      `x-paystack-signature: ${byPaystack(over)["x-paystack-signature"]}`,
      "Transfer-Encoding: chunked",
    ]
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => {
        socket.write(`${head.join("\r\n")}\r\n\r\n`)
        for (let at = 0; at < over.length; at += 64 * KIB) {
          const piece = over.slice(at, at + 64 * KIB)
          socket.write(`${piece.length.toString(16)}\r\n${piece}\r\n`)
        }
        socket.write("0\r\n\r\n")
      })
      socket.once("data", (bytes) => {
        resolve(String(bytes))
        socket.destroy()
      })
      socket.once("error", reject)
    })
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer).toContain("request_too_large")
  })
})

describe("replaced credentials", () => {
  it("sign callbacks for an hour more", async () => {
    const body = success("ref.replaced")
    const [before, after] = ["sk_live_before", "sk_live_after"]
    const { account } = await database.run(() => createAccount({ businessName: "Replaced" }))
    await give(account.id, "paystack", { secret_key: before })
    const signed = (secret: string) => post(`paystack/${account.id}`, body, byPaystack(body, secret))
    expect((await signed(before)).status).toBe(200)
    await give(account.id, "paystack", { secret_key: after })
    expect([(await signed(before)).status, (await signed(after)).status]).toEqual([200, 200])
    await database.run(
      (sql) => sql`
        UPDATE rail_credential SET replaced_at = clock_timestamp() - interval '1 hour 1 second'
        WHERE account_id = ${account.id} AND replaced_at IS NOT NULL`,
    )
    expect([(await signed(before)).status, (await signed(after)).status]).toEqual([401, 200])
    // A server deletes them at its start, and checks again each minute.
    const next = await startServer(database.url())
    try {
      await eventually(async () => {
        const left = await database.run((sql) => sql`SELECT 1 FROM rail_credential WHERE account_id = ${account.id}`)
        return left.length === 1 ? true : undefined
      })
    } finally {
      await next.stop()
    }
    expect((await signed(after)).status).toBe(200)
  })
})
