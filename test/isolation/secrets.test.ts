/** Tests secrets at rest: the content of a database dump, and its state after ENCRYPTION_KEY changes. */
import { createHash, randomBytes } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Layer, Logger, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Webhook } from "standardwebhooks"
import { afterAll, describe, expect, it } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { ConfigProblem, type EncryptionKey } from "../../src/config/Config.ts"
import { RecordKeys } from "../../src/http/RecordKeys.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { appendEvents } from "../../src/outbound/event/events.ts"
import { createEndpoint } from "../../src/outbound/webhook/endpoints.ts"
import { takeEndpoints } from "../../src/outbound/webhook/queue.ts"
import { reportUnopened } from "../../src/outbound/webhook/secrets.ts"
import { createKey, encryptionKeys } from "../../src/security/secret/encryptionKeys.ts"
import { rotate } from "../../src/security/secret/rotate.ts"
import { serviceSecret, serviceSecrets } from "../../src/security/secret/serviceSecrets.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import { createApi } from "../support/api.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { type TestDatabase, useDatabase } from "../support/database.ts"
import { dump, spellings } from "../support/dump.ts"
import { useOwnInstance } from "../support/instance.ts"
import { type Received, useReceiver } from "../support/receiver.ts"
import { runToEnd, startServer } from "../support/server.ts"
import { secretsLayer, useServices } from "../support/services.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const receiver = useReceiver()
const LOOPBACK = { ALLOW_LOOPBACK_WEBHOOKS: "true" }

const newKey = (): EncryptionKey => Redacted.make(randomBytes(32))
const setting = (...keys: ReadonlyArray<EncryptionKey>) => ({
  ENCRYPTION_KEY: keys.map((key) => Buffer.from(Redacted.value(key)).toString("base64")).join(),
})

/** Runs a program that opens and seals secrets in a database. */
const sealing =
  (database: TestDatabase) =>
  <A, E>(keys: ReadonlyArray<EncryptionKey>, program: Effect.Effect<A, E, SqlClient.SqlClient | Vault>) =>
    database.run(() => Effect.provide(program, Vault.layer(keys)))

const verified = (secret: string, { body, headers }: Received) =>
  new Webhook(secret).verify(body, headers as Record<string, string>)

const { api, database, accountId } = useOwnInstance(() => LOOPBACK)

describe("a dump of the database", () => {
  it("shows no secret, and does not allow guessing an Idempotency-Key, a body or a response", async () => {
    const KEY = "order-1234"
    const hook = { url: receiver.url("/dump"), enabled_events: ["*"] }
    const made = await api.post("/webhook-endpoints", hook, { "idempotency-key": KEY })
    const { id, secret } = data(made, 201)
    const { secret: rolled } = data(await api.post(`/webhook-endpoints/${id}/roll-secret`))
    const customer = await createCustomer(api, { email: "ada@example.com" })
    await api.post("/subscriptions", { customer, plan: await createPlan(api), payment_method: "pm_test_success" })
    data(await api.post("/nudges", { customer, template: "payment_due" }), 201)
    const [{ payment_link }] = await eventually(async () => {
      const { data: sent } = (await api.get("/test/nudge-outbox")).body
      return sent.length > 0 ? sent : undefined
    })
    const own = await sealing(database)(
      KEYS,
      Effect.forEach(["payment_links", "invoice_links", "idempotency_records"], serviceSecret),
    )
    const rows = await dump(database)

    const request = 'POST /sandbox/v1/webhook-endpoints\n{"enabled_events":["*"],"url":'
    const sha256 = (text: string) => createHash("sha256").update(text).digest()
    const hidden = [
      secret,
      rolled,
      ...[secret, rolled].map((whsec: string) => Buffer.from(whsec.slice("whsec_".length), "base64")),
      ...own.map(Redacted.value),
      payment_link.split("/").at(-1),
      KEY,
      sha256(KEY),
      sha256(`${request}${JSON.stringify(hook.url)}}`),
    ].flatMap(spellings)
    for (const spelling of hidden) {
      const found = rows.filter((row) => row.includes(spelling)).map((row) => row.split(" ")[0])
      expect([spelling, found]).toEqual([spelling, []])
    }
    // The search covers all tables: it finds values that are not secret.
    for (const plain of [id, hook.url, customer, accountId()])
      expect(rows.filter((row) => row.includes(plain)).length).toBeGreaterThan(0)
    expect(rows.filter((row) => row.startsWith("public.webhook_secret "))).toHaveLength(2)
    expect(rows.filter((row) => row.startsWith("public.service_secret "))).toHaveLength(5)
  })
})

describe("a rotation", () => {
  const database = useDatabase()
  const [old, fresh] = [newKey(), newKey()]
  const cliOf = (...keys: ReadonlyArray<EncryptionKey>) => useCommandLine(database, setting(...keys))
  const both = cliOf(fresh, old)
  const oldOnly = cliOf(old)
  const withKey = { "idempotency-key": "rotated" }
  const order = { name: "Ordered once" }

  /** Reads the marks of the keys that sealed the stored secrets. */
  const storedMarks = async () => {
    const rows = await database.run(
      (sql) => sql<{ mark: string }>`
        SELECT encode(substring(sealed FROM 1 FOR 9), 'hex') AS mark FROM webhook_secret
        UNION SELECT encode(substring(sealed FROM 1 FOR 9), 'hex') FROM service_secret`,
    )
    return rows.map(({ mark }) => mark)
  }

  const start = async (...keys: ReadonlyArray<EncryptionKey>) => {
    const server = await startServer(database.url(), { ...LOOPBACK, ...setting(...keys) })
    return { server, ...callerOf(server.origin) }
  }
  let key = ""
  const callerOf = (origin: string) => {
    const api = createApi(origin, key)
    return {
      api,
      order: () => api.post("/customers", order, withKey),
      link: async (): Promise<string> => (await api.get("/test/nudge-outbox")).body.data[0]?.payment_link,
      /** The delivery of an event that happens now. */
      delivery: async (type: string) => {
        const { id } = data(await api.post("/test/events/trigger", { type }), 201)
        return eventually(async () => receiver.at("/rotated").find(({ event }) => event.id === id))
      },
    }
  }

  it("keeps all secrets readable, and reseals them beside a running server, until the old key is removed", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Rotated" }))
    key = keys.sk_test
    const first = await start(old)
    const hook = { url: receiver.url("/rotated"), enabled_events: ["*"] }
    const { secret } = data(await first.api.post("/webhook-endpoints", hook), 201)
    const customer = await createCustomer(first.api, { email: "ada@example.com" })
    data(await first.api.post("/nudges", { customer, template: "payment_due" }), 201)
    const pathOf = (link: string) => new URL(link).pathname
    const link = pathOf(await eventually(first.link))
    const ordered = data(await first.order(), 201)

    // Processes with different newest keys, as during a rolling restart, agree on the worker of a key.
    const second = await start(fresh, old)
    const body = { name: "Asked of both" }
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        [first, second][n % 2]!.api.post("/customers", body, { "idempotency-key": "asked of both" }),
      ),
    )
    const created = answers.filter(({ status }) => status === 201)
    expect(new Set(created.map(({ body }) => body.data.id)).size).toBe(1)
    expect(created.filter(({ headers }) => headers.get("idempotent-replayed") === null)).toHaveLength(1)
    expect((await second.api.all("/customers")).filter(({ name }) => name === body.name)).toHaveLength(1)
    await first.server.stop()

    const marksOf = async (key: EncryptionKey) => (await sealing(database)([key], Vault)).marks
    verified(secret, await second.delivery("before.rotation"))
    expect(await storedMarks()).toEqual(expect.arrayContaining([...(await marksOf(old))]))
    const rotated = await both("secrets", "rotate", "--json")
    expect([rotated.code, JSON.parse(rotated.output)]).toEqual([0, { rotated: 6 }])
    expect(await storedMarks()).toEqual(await marksOf(fresh))
    expect(JSON.parse((await both("secrets", "rotate", "--json")).output)).toEqual({ rotated: 0 })
    verified(secret, await second.delivery("after.rotation"))
    expect((await second.order()).body.data).toEqual(ordered)
    await second.server.stop()

    const third = await start(fresh)
    const replayed = await third.order()
    expect([replayed.headers.get("idempotent-replayed"), replayed.body.data]).toEqual(["true", ordered])
    expect(pathOf(await third.link())).toBe(link)
    verified(secret, await third.delivery("without.old"))
    await third.server.stop()

    const wrong = await runToEnd("src/main.ts", [], {
      DATABASE_URL: Redacted.value(database.url()),
      PORT: "0",
      ...setting(old),
    })
    expect([wrong.code, wrong.errors.trim().split("\n")]).toEqual([
      1,
      [expect.stringMatching(/^No ENCRYPTION_KEY of this process opens .* service_secret \w+: /)],
    ])
    const refused = await oldOnly("secrets", "rotate", "--json")
    expect([refused.code, refused.output]).toEqual([1, ""])
    expect(refused.errors).toMatch(
      /^No ENCRYPTION_KEY of this process opens 6 secrets, such as .*; 0 were encrypted again\.$/m,
    )
  })
})

describe("resealed secrets", () => {
  const database = useDatabase()
  const run = sealing(database)
  const MANY = 1_100

  it("are committed in batches that stay if a later one fails, and skip a secret that no key opens", async () => {
    const [old, fresh] = [newKey(), newKey()]
    await run([newKey()], serviceSecret("s0300"))
    const nameOf = (n: number) => `s${String(n).padStart(4, "0")}`
    const names = Array.from({ length: MANY }, (_, n) => nameOf(n + 1)).filter((name) => name !== "s0300")
    const secrets = await run([old], Effect.forEach(names, serviceSecret))
    const [oldMark] = (await run([old], Vault)).marks
    await database.run(
      (sql) =>
        sql`ALTER TABLE service_secret ADD CONSTRAINT crash
          CHECK (name < 's0600' OR encode(substring(sealed FROM 1 FOR 9), 'hex') = '${sql.literal(oldMark!)}')`
          .unprepared,
    )
    const rotated = () => run([fresh, old], rotate(serviceSecrets))
    await expect(rotated()).rejects.toMatchObject({ reason: { cause: { code: "23514" } } })
    const left = async () =>
      (
        await database.run(
          (sql) => sql<{ n: number }>`
            SELECT count(*) AS n FROM service_secret WHERE encode(substring(sealed FROM 1 FOR 9), 'hex') = ${oldMark!}`,
        )
      )[0]!.n
    expect(await left()).toBe(MANY - 500)
    await database.run((sql) => sql`ALTER TABLE service_secret DROP CONSTRAINT crash`.unprepared)
    const unopened = { unopened: 1, named: [["service_secret", "s0300"]] }
    // Two at the same time share the work.
    const [one, other] = await Promise.all([rotated(), rotated()])
    expect(one.rotated + other.rotated).toBe(MANY - 500)
    expect([one, other]).toMatchObject([unopened, unopened])
    expect(await left()).toBe(0)
    const value = await run([fresh], serviceSecret("s1099"))
    expect(Redacted.value(value)).toEqual(Redacted.value(secrets[names.indexOf("s1099")]!))
  })
})

describe("an endpoint whose secret no key opens", () => {
  const idle = useDatabase()
  const idleServices = useServices(idle)

  it("is left alone by that process, with its deliveries, and is served by a process with the key", async () => {
    const lost = newKey()
    const add = async (path: string) => {
      const endpoint = { url: receiver.url(path), enabled_events: ["*"] }
      return data(await api.post("/webhook-endpoints", endpoint), 201) as { id: string; secret: string }
    }
    const [locked, open] = [await add("/locked"), await add("/open")]
    const { seal } = await sealing(database)([lost], Vault)
    const place = ["webhook_secret", accountId(), false, locked.id] as const
    const sealed = seal(place, Redacted.make(locked.secret))
    await database.run(
      (sql) => sql`UPDATE webhook_secret SET sealed = ${sealed} WHERE webhook_endpoint_id = ${locked.id}`,
    )
    const { id } = data(await api.post("/test/events/trigger", { type: "locked.out" }), 201)
    const delivered = (path: string) => eventually(async () => receiver.at(path).find(({ event }) => event.id === id))
    verified(open.secret, await delivered("/open"))
    const waiting = () =>
      database.run(
        (sql) => sql`
          SELECT status, attempt, runner FROM webhook_delivery d JOIN webhook_endpoint e ON e.id = d.webhook_endpoint_id
          WHERE e.id = ${locked.id} AND event_id = ${id}`,
      )
    expect(await waiting()).toEqual([{ status: "pending", attempt: 0, runner: null }])
    const lines: Array<unknown> = []
    const rotationFails = (...keys: ReadonlyArray<EncryptionKey>) =>
      sealing(database)(
        keys,
        Effect.provide(reportUnopened, Logger.layer([Logger.make(({ message }) => lines.push(message))])),
      )
    await rotationFails(...KEYS, lost)
    await rotationFails(...KEYS)
    expect(lines.flat()).toEqual([
      `No ENCRYPTION_KEY of this process opens the secrets of 1 webhook endpoints, such as ${locked.id}: it delivers nothing to them.`,
    ])
    const other = await startServer(database.url(), {
      ...LOOPBACK,
      ...setting(...KEYS, lost),
    })
    verified(locked.secret, await delivered("/locked"))
    await other.stop()
  })

  it("is not even taken", async () => {
    const { account } = await idle.run(() => createAccount({ businessName: "Nobody delivers" }))
    const tenant = { account_id: account.id, livemode: false }
    const hook = { url: "https://93.184.215.14/hook", enabled_events: ["*"] as [string] }
    const { row, secret } = await idleServices(
      Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(createEndpoint(tenant, hook))),
    )
    const event = {
      type: "charge.failed" as const,
      object: { id: "chg_1" },
      previous: {},
      test_clock_id: null,
      at: Date.now(),
    }
    await idle.write((unit) => appendEvents(unit, [{ ...tenant, ...event }]))
    const taken = async (key: EncryptionKey) => {
      const { seal } = await sealing(idle)([key], Vault)
      const sealed = seal(["webhook_secret", account.id, false, row.id], Redacted.make(secret))
      await idle.run((sql) => sql`UPDATE webhook_secret SET sealed = ${sealed}`)
      return (await idleServices(takeEndpoints([], 10))).map(({ id }) => id)
    }
    expect(await taken(newKey())).toEqual([])
    expect(await taken(KEYS[0]!)).toEqual([row.id])
  })

  it("that was released during a delivery also goes to the process with the key", async () => {
    const lost = newKey()
    let answer = () => {}
    const asked = new Promise<void>((resolve) =>
      receiver.answer("/changed", (_, response) => {
        answer = () => void response.writeHead(500).end()
        resolve()
      }),
    )
    const endpoint = { url: receiver.url("/changed"), enabled_events: ["*"] }
    const { id, secret } = data(await api.post("/webhook-endpoints", endpoint), 201)
    data(await api.post("/test/events/trigger", { type: "changed.key" }), 201)
    await asked
    const { seal } = await sealing(database)([lost], Vault)
    const sealed = seal(["webhook_secret", accountId(), false, id], Redacted.make(secret))
    await database.run((sql) => sql`UPDATE webhook_secret SET sealed = ${sealed} WHERE webhook_endpoint_id = ${id}`)
    answer()
    await eventually(async () => {
      const [row] = await database.run(
        (sql) => sql<{ runner: number | null }>`SELECT runner FROM webhook_endpoint WHERE id = ${id}`,
      )
      return row!.runner === null ? true : undefined
    })
    expect(data(await api.delete(`/webhook-endpoints/${id}`)).deleted).toBe(true)
  })
})

describe("a sealed secret", () => {
  const place = ["webhook_secret", "acct_1", false, "we_1"] as const
  const vaultOf = (...keys: ReadonlyArray<EncryptionKey>) =>
    Effect.runSync(Effect.provide(Vault, Layer.fresh(Vault.layer(keys))))

  it("opens in its own place only, under any of the keys", () => {
    const [old, fresh] = [newKey(), newKey()]
    const sealed = vaultOf(old).seal(place, Redacted.make("whsec_1"))
    const open = (vault: Vault["Service"], at: Parameters<typeof vault.open>[0] = place, bytes = sealed) =>
      Effect.runSync(
        Effect.match(vault.open(at, bytes), {
          onSuccess: (found) => Redacted.value(found).toString(),
          onFailure: ({ message }) => message,
        }),
      )
    expect(open(vaultOf(fresh, old))).toBe("whsec_1")
    expect(vaultOf(old).seal(place, Redacted.make("whsec_1"))).not.toEqual(sealed)
    const refused = /^No ENCRYPTION_KEY of this process opens the secret in webhook_secret acct_\d (true|false) we_\d: /
    expect(open(vaultOf(fresh))).toMatch(refused)
    expect(open(vaultOf(old), ["webhook_secret", "acct_2", false, "we_1"])).toMatch(refused)
    expect(open(vaultOf(old), ["webhook_secret", "acct_1", true, "we_1"])).toMatch(refused)
    expect(open(vaultOf(old), ["webhook_secret", "acct_1", false, "we_2"])).toMatch(refused)
    for (const length of [0, 8, 9, 20, 36, sealed.length - 1])
      expect(open(vaultOf(old), place, sealed.subarray(0, length))).toMatch(refused)
    for (let at = 0; at < sealed.length; at++)
      expect(
        open(
          vaultOf(old),
          place,
          sealed.map((byte, index) => (index === at ? byte ^ 1 : byte)),
        ),
      ).toMatch(refused)
  })
})

describe("the key of a DATA_DIR", () => {
  const folder = mkdtempSync(join(tmpdir(), "recurring-billing-key-"))
  afterAll(() => rmSync(folder, { recursive: true }))
  const keysOf = (dataDir: string, configured?: ReadonlyArray<EncryptionKey>) =>
    Effect.runSync(encryptionKeys({ dataDir, encryptionKeys: configured })).map(Redacted.value)

  it("is created with its folder if there is none, and only its owner can read it", () => {
    const dataDir = join(folder, "not", "there", "yet")
    const [made, ...more] = keysOf(dataDir)
    expect([made!.length, more]).toEqual([32, []])
    expect(keysOf(dataDir)).toEqual([made])
    expect(readdirSync(dataDir)).toEqual(["encryption-key"])
    expect(statSync(join(dataDir, "encryption-key")).mode & 0o777).toBe(0o600)
    expect(readFileSync(join(dataDir, "encryption-key"), "utf8").trim()).toBe(Buffer.from(made!).toString("base64"))
  })

  it("is kept if another process has created it meanwhile", () => {
    const path = join(folder, "encryption-key")
    createKey(path)
    const made = readFileSync(path, "utf8")
    createKey(path)
    expect(readFileSync(path, "utf8")).toBe(made)
    expect(readdirSync(folder).filter((name) => name.startsWith("encryption-key"))).toEqual(["encryption-key"])
  })

  it("is not created if one is set, and an invalid one is refused by name", () => {
    const dataDir = join(folder, "wrong")
    const configured = newKey()
    expect(keysOf(dataDir, [configured])).toEqual([Redacted.value(configured)])
    keysOf(dataDir)
    writeFileSync(join(dataDir, "encryption-key"), "half a key")
    const refusal = Effect.runSync(Effect.flip(encryptionKeys({ dataDir, encryptionKeys: undefined })))
    expect(refusal).toBeInstanceOf(ConfigProblem)
    expect(refusal.message).toMatch(/encryption-key must be 32 bytes in base64/)
    expect(refusal.message).not.toContain("half")
  })
})

describe("an idempotency record's key", () => {
  const database = useDatabase()

  it("opens nothing of another tenant's, key's or service's", async () => {
    const of = (keys: ReadonlyArray<EncryptionKey>) =>
      Effect.runPromise(
        Effect.provide(RecordKeys, Layer.fresh(RecordKeys.layer).pipe(Layer.provide(secretsLayer(database, keys)))),
      )
    const tenant = { account_id: "acct_1", livemode: true }
    const records = await of(KEYS)
    const record = records.of(tenant, "k")
    const sealed = record.seal("answer")
    expect(records.of(tenant, "k").open(sealed)).toBe("answer")
    const request = { method: "POST", path: "/v1/plans", body: {} }
    for (const other of [
      records.of({ ...tenant, account_id: "acct_2" }, "k"),
      records.of({ ...tenant, livemode: false }, "k"),
      records.of(tenant, "l"),
    ]) {
      expect(other.name).not.toBe(record.name)
      expect(other.fingerprint(request)).not.toEqual(record.fingerprint(request))
      expect(() => other.open(sealed)).toThrow()
    }
  })
})
