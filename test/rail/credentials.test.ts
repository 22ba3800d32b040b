/** Tests credentials of rails: the command line's input, and their storage (decisions P1, P2). */
import { randomBytes } from "node:crypto"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Layer, Logger, Redacted, Result } from "effect"
import type { SqlClient } from "effect/sql"
import { afterAll, describe, expect, it } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { readCredentials } from "../../src/cli/credentialsFile.ts"
import { ConfigProblem, type EncryptionKey } from "../../src/config/Config.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { purgeReplaced, replaceCredentials, switchRail } from "../../src/rails/credential/credentials.ts"
import { RailCredentials, railAccountKey } from "../../src/rails/credential/RailCredentials.ts"
import type { Credentials, OutsideRail } from "../../src/rails/rail/Rail.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useDatabase } from "../support/database.ts"
import { dump, spellings } from "../support/dump.ts"
import { type Finished, runToEnd } from "../support/server.ts"

const database = useDatabase()
const folder = mkdtempSync(join(tmpdir(), "recurring-billing-rail-"))
afterAll(() => rmSync(folder, { recursive: true }))

const PAYSTACK = "sk_live_of_the_shop_0123456789"
const FLUTTERWAVE = { secret_key: "FLWSECK-of-the-shop-X", webhook_secret: "hash:of/the+shop" }

const fileOf = (written: unknown) => {
  const path = join(folder, randomBytes(6).toString("hex"))
  writeFileSync(path, typeof written === "string" || Buffer.isBuffer(written) ? written : JSON.stringify(written))
  return path
}

const cli = useCommandLine(database)
const document = ({ code, output, errors }: Finished) => {
  expect([code, errors]).toEqual([0, ""])
  return JSON.parse(output)
}

const newAccount = () =>
  database.run(() => Effect.map(createAccount({ businessName: "Fit Lagos" }), ({ account }) => account.id))

const redacted = (fields: Readonly<Record<string, string>>): Credentials =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, Redacted.make(value)]))
const plain = (credentials: Credentials) =>
  Object.fromEntries(Object.entries(credentials).map(([name, value]) => [name, Redacted.value(value)]))

/** Runs a program with its own memory and keys, as a separate process has. */
const inProcess = <A, E>(
  program: Effect.Effect<A, E, SqlClient.SqlClient | Vault | RailCredentials>,
  keys: ReadonlyArray<EncryptionKey> = KEYS,
) =>
  database.run(() =>
    Effect.provide(program, Layer.fresh(RailCredentials.layer.pipe(Layer.provideMerge(Vault.layer(keys))))),
  )

const find = (account_id: string, rail: OutsideRail) =>
  Effect.gen(function* () {
    const found = yield* (yield* RailCredentials).find([{ account_id, rail }])
    return found.get(railAccountKey({ account_id, rail }))
  })
const current = (account: string, rail: OutsideRail, keys = KEYS) =>
  inProcess(
    Effect.map(find(account, rail), (found) => (found === undefined ? undefined : plain(Result.getOrThrow(found)))),
    keys,
  )
const signing = (account: string, rail: OutsideRail, keys = KEYS) =>
  inProcess(
    Effect.gen(function* () {
      return (yield* (yield* RailCredentials).ofCallback(account, rail)).map(plain)
    }).pipe(Effect.provide(Logger.layer([]))),
    keys,
  )

describe("account rail", () => {
  it("gives an account the credentials of a rail, and shows only the name of its rail", async () => {
    const id = await newAccount()
    const show = async () => document(await cli("account", "show", id, "--json"))
    const before = await show()
    expect(before).toMatchObject({ id, object: "account", rail: "simulator" })
    const given = document(
      await cli("account", "rail", id, "paystack", "--credentials", fileOf({ secret_key: PAYSTACK }), "--json"),
    )
    expect(given).toEqual({ ...before, rail: "paystack" })
    expect(await show()).toEqual(given)
    expect(await current(id, "paystack")).toEqual({ secret_key: PAYSTACK })
    expect(await current(id, "flutterwave")).toBeUndefined()

    const path = fileOf(FLUTTERWAVE)
    expect(document(await cli("account", "rail", id, "flutterwave", "--credentials", path, "--json")).rail).toBe(
      "flutterwave",
    )
    expect([await current(id, "paystack"), await current(id, "flutterwave")]).toEqual([
      { secret_key: PAYSTACK },
      FLUTTERWAVE,
    ])
    // Back and forth without entering them again.
    for (const rail of ["paystack", "simulator", "flutterwave"])
      expect(document(await cli("account", "rail", id, rail, "--json")).rail).toBe(rail)
    expect(await current(id, "paystack")).toEqual({ secret_key: PAYSTACK })
    const listed = document(await cli("account", "list", "--json"))
    expect(listed.find((one: { id: string }) => one.id === id).rail).toBe("flutterwave")
    const created = document(await cli("account", "create", "--business-name", "New", "--json"))
    expect(created.account.rail).toBe("simulator")
  })

  it("accepts test keys in development, and never in production", async () => {
    for (const [rail, given] of [
      ["paystack", { secret_key: "sk_test_of_the_shop" }],
      ["flutterwave", { ...FLUTTERWAVE, secret_key: "FLWSECK_TEST-of-the-shop-X" }],
    ] as const) {
      const path = fileOf(given)
      expect(plain(await Effect.runPromise(readCredentials(path, rail, false)))).toEqual(given)
      const { message } = await Effect.runPromise(Effect.flip(readCredentials(path, rail, true)))
      expect(message).toContain("secret_key is a test key")
      expect(message).not.toContain(given.secret_key)
    }
    for (const [rail, given] of [
      ["paystack", { secret_key: PAYSTACK }],
      ["flutterwave", FLUTTERWAVE],
    ] as const)
      expect(plain(await Effect.runPromise(readCredentials(fileOf(given), rail, true)))).toEqual(given)
  })

  it("reads them from the standard input", async () => {
    const id = await newAccount()
    const settings = { DATABASE_URL: Redacted.value(database.url()) }
    const args = ["account", "rail", id, "paystack", "--credentials", "-", "--json"]
    const piped = await runToEnd("src/cli.ts", args, settings, JSON.stringify({ secret_key: PAYSTACK }))
    expect(document(piped).rail).toBe("paystack")
    expect(await current(id, "paystack")).toEqual({ secret_key: PAYSTACK })
    expect((await runToEnd("src/cli.ts", args, settings, "")).code).toBe(2)
  })

  it("refuses an invalid file, naming the error but none of its content", async () => {
    const id = await newAccount()
    const path = (written: unknown) => fileOf(written)
    const give = (rail: string, file: string) => cli("account", "rail", id, rail, "--credentials", file, "--json")
    const huge = { secret_key: PAYSTACK, note: "x".repeat(4096) }
    for (const [rail, file, named] of [
      ["paystack", path({}), "secret_key"],
      ["paystack", path({ secret_key: PAYSTACK, webhook_secret: "x" }), "webhook_secret"],
      ["paystack", path({ secret_key: PAYSTACK, public_key: "pk_live_x" }), "public_key"],
      ["paystack", path(`{"secret_key": "${PAYSTACK}", "__proto__": "x"}`), "__proto__"],
      ["paystack", path({ secret_key: "" }), "secret_key"],
      ["paystack", path({ secret_key: ` ${PAYSTACK}` }), "secret_key"],
      ["paystack", path({ secret_key: `${PAYSTACK}\n` }), "secret_key"],
      ["paystack", path({ secret_key: "sk_live_é" }), "secret_key"],
      ["paystack", path({ secret_key: PAYSTACK.repeat(20) }), "secret_key"],
      ["paystack", path({ secret_key: [PAYSTACK] }), "secret_key"],
      ["paystack", path({ secret_key: null }), "secret_key"],
      ["paystack", path({ secret_key: 5 }), "secret_key"],
      ["paystack", path({ secret_key: "pk_live_of_the_shop" }), "a public key"],
      ["flutterwave", path({ ...FLUTTERWAVE, secret_key: "FLWPUBK-of-the-shop-X" }), "a public key"],
      ["flutterwave", path({ secret_key: FLUTTERWAVE.secret_key }), "webhook_secret"],
      ["flutterwave", path({ webhook_secret: FLUTTERWAVE.webhook_secret }), "secret_key"],
      ["flutterwave", path({ ...FLUTTERWAVE, webhook_secret: 1 }), "webhook_secret"],
      ["paystack", path(PAYSTACK), "JSON"],
      ["paystack", path(`{"secret_key": "${PAYSTACK}"`), "JSON"],
      ["paystack", path(JSON.stringify(PAYSTACK)), "JSON"],
      ["paystack", path([PAYSTACK]), "JSON"],
      ["paystack", path(""), "JSON"],
      ["paystack", path(huge), "4096"],
      ["paystack", join(folder, "nothing"), "ENOENT"],
      ["paystack", folder, "EISDIR"],
      // Passed in place of the file name by mistake.
      ["paystack", PAYSTACK, "ENOENT"],
      ["paystack", JSON.stringify({ secret_key: PAYSTACK }), "ENOENT"],
      ["simulator", path({ secret_key: PAYSTACK }), "simulator"],
      ["opay", path({ secret_key: PAYSTACK }), "RAIL"],
    ] as const) {
      const { code, output, errors } = await give(rail, file)
      expect([named, code, output, errors.trim().split("\n").length]).toEqual([named, 2, "", 1])
      expect(errors).toContain(named)
      for (const secret of [PAYSTACK, FLUTTERWAVE.secret_key, FLUTTERWAVE.webhook_secret, "sk_live"])
        expect(errors).not.toContain(secret)
    }
    expect([await current(id, "paystack"), await current(id, "flutterwave")]).toEqual([undefined, undefined])
    expect(document(await cli("account", "show", id, "--json")).rail).toBe("simulator")
  })

  it("refuses with exit code 1 an unknown account, and one without credentials", async () => {
    const id = await newAccount()
    const file = fileOf({ secret_key: PAYSTACK })
    for (const args of [
      ["acct_nowhere", "paystack", "--credentials", file],
      ["acct_nowhere", "paystack"],
      ["acct_nowhere", "simulator"],
      ["acct_service", "paystack", "--credentials", file],
      [id, "paystack"],
      [id, "flutterwave"],
    ]) {
      const { code, output, errors } = await cli("account", "rail", ...args, "--json")
      expect([args, code, output, errors.trim().split("\n").length]).toEqual([args, 1, "", 1])
      expect(errors).toContain(args[0])
    }
    expect(await current("acct_service", "paystack")).toBeUndefined()
  })

  it("refuses credentials if there is no encryption key, and creates none", async () => {
    const id = await newAccount()
    const dataDir = mkdtempSync(join(folder, "data"))
    const file = fileOf({ secret_key: PAYSTACK })
    const give = (env: Readonly<Record<string, string>>) =>
      runToEnd("src/cli.ts", ["account", "rail", id, "paystack", "--credentials", file, "--json"], {
        DATABASE_URL: Redacted.value(database.url()),
        DATA_DIR: dataDir,
        ENCRYPTION_KEY: "",
        ...env,
      })
    for (const env of [{}, { NODE_ENV: "production" }]) {
      const { code, output, errors } = await give(env)
      expect([code, output, errors.trim().split("\n").length]).toEqual([1, "", 1])
      expect(errors).toContain("ENCRYPTION_KEY")
      expect(errors).not.toContain(PAYSTACK)
    }
    expect(readdirSync(dataDir)).toEqual([])
    expect(await current(id, "paystack")).toBeUndefined()

    // The key that a server of this DATA_DIR has created.
    const kept = randomBytes(32)
    writeFileSync(join(dataDir, "encryption-key"), `${kept.toString("base64")}\n`, { mode: 0o600 })
    expect(document(await give({})).rail).toBe("paystack")
    expect(await current(id, "paystack", [Redacted.make(kept)])).toEqual({ secret_key: PAYSTACK })
  })

  it("refuses the simulator in production", async () => {
    const id = await newAccount()
    const { code, errors } = await runToEnd("src/cli.ts", ["account", "rail", id, "simulator"], {
      DATABASE_URL: Redacted.value(database.url()),
      NODE_ENV: "production",
    })
    expect([code, errors]).toEqual([1, expect.stringContaining("production")])
  })
})

describe("credentials at rest", () => {
  it("are in plain text nowhere in a dump, and open in their own place only", async () => {
    const [id, other] = [await newAccount(), await newAccount()]
    const secrets = { secret_key: "sk_live_dumped_0123456789", webhook_secret: "hash_dumped_0123456789" }
    await inProcess(replaceCredentials(id, "flutterwave", redacted(secrets)))
    await inProcess(replaceCredentials(id, "paystack", redacted({ secret_key: "sk_live_dumped_too_987654321" })))
    const rows = await dump(database)
    for (const spelling of [...Object.values(secrets), "sk_live_dumped_too_987654321"].flatMap(spellings))
      expect([spelling, rows.filter((row) => row.includes(spelling))]).toEqual([spelling, []])
    expect(rows.filter((row) => row.startsWith("public.rail_credential ") && row.includes(id))).toHaveLength(2)

    const sealed = await database.run(
      (sql) => sql<{ sealed: Uint8Array }>`SELECT sealed FROM rail_credential WHERE account_id = ${id}`,
    )
    expect(new Set(sealed.map((row) => Buffer.from(row.sealed).subarray(9, 21).toString("hex"))).size).toBe(2)
    // Copied to another account's row, or to another rail's, they do not open.
    await database.run(
      (sql) => sql`
        INSERT INTO rail_credential (account_id, livemode, id, rail, sealed, created_at)
        SELECT ${other}, livemode, id, rail, sealed, created_at FROM rail_credential WHERE account_id = ${id} AND rail = 'flutterwave'`,
    )
    const opensNot = async (account: string, rail: OutsideRail) => {
      const found = await inProcess(Effect.provide(find(account, rail), Logger.layer([])))
      expect(Result.isFailure(found!) && found.failure).toBeInstanceOf(ConfigProblem)
      expect(await signing(account, rail)).toEqual([])
    }
    await opensNot(other, "flutterwave")
    await database.run((sql) => sql`UPDATE rail_credential SET rail = 'paystack' WHERE account_id = ${other}`)
    await opensNot(other, "paystack")
  })

  it("are resealed under the newest key, and open without the old one from then on", async () => {
    const [id, lost] = [await newAccount(), await newAccount()]
    const [old, fresh, gone] = [32, 32, 32].map((bytes): EncryptionKey => Redacted.make(randomBytes(bytes)))
    await database.run((sql) => sql`DELETE FROM rail_credential`)
    const fields = { secret_key: "sk_live_rotated" }
    await inProcess(replaceCredentials(id, "paystack", redacted({ secret_key: "sk_live_before" })), [old!])
    await inProcess(replaceCredentials(id, "paystack", redacted(fields)), [old!])
    await inProcess(replaceCredentials(id, "flutterwave", redacted(FLUTTERWAVE)), [old!])
    const rotate = (command: string, ...keys: ReadonlyArray<EncryptionKey | undefined>) =>
      runToEnd("src/cli.ts", [command, "rotate", "--json"], {
        DATABASE_URL: Redacted.value(database.url()),
        ENCRYPTION_KEY: keys.map((key) => Buffer.from(Redacted.value(key!)).toString("base64")).join(),
      })
    expect(document(await rotate("rail", fresh, old))).toEqual({ rotated: 3 })
    expect(document(await rotate("rail", fresh, old))).toEqual({ rotated: 0 })
    expect(await current(id, "paystack", [fresh!])).toEqual(fields)
    expect(await current(id, "flutterwave", [fresh!])).toEqual(FLUTTERWAVE)
    expect(await signing(id, "paystack", [fresh!])).toEqual([fields, { secret_key: "sk_live_before" }])

    // One that no key opens is unchanged, and is named. The others are still resealed.
    await inProcess(replaceCredentials(lost, "paystack", redacted(fields)), [gone!])
    const refused = await rotate("rail", old, fresh)
    expect([refused.code, refused.output]).toEqual([1, ""])
    expect(refused.errors).toMatch(new RegExp(`opens 1 secrets, such as rail_credential ${lost} paystack .*; 3 were`))
    expect(await current(lost, "paystack", [gone!])).toEqual(fields)
    expect(document(await rotate("secrets", fresh, old, gone)).rotated).toBeGreaterThanOrEqual(4)
    expect(await current(lost, "paystack", [fresh!])).toEqual(fields)
  })
})

describe("replaced credentials", () => {
  const replacedAgo = (id: string, ago: string) =>
    database.run(
      (sql) => sql`
        UPDATE rail_credential SET replaced_at = clock_timestamp() - ${ago}::interval
        WHERE account_id = ${id} AND replaced_at IS NOT NULL`,
    )

  it("make no more calls, sign for an hour, and are deleted then", async () => {
    const id = await newAccount()
    const keys = ["sk_live_first", "sk_live_second"].map((secret_key) => ({ secret_key }))
    const [first, second] = [keys[0]!, keys[1]!]
    await inProcess(
      Effect.gen(function* () {
        yield* replaceCredentials(id, "paystack", redacted(first))
        expect(plain(Result.getOrThrow((yield* find(id, "paystack"))!))).toEqual(first)
        yield* replaceCredentials(id, "paystack", redacted(second))
        // A process that has used the first ones uses the second immediately.
        expect(plain(Result.getOrThrow((yield* find(id, "paystack"))!))).toEqual(second)
      }),
    )
    expect(await signing(id, "paystack")).toEqual([second, first])
    await replacedAgo(id, "59 minutes 30 seconds")
    await inProcess(purgeReplaced)
    expect(await signing(id, "paystack")).toEqual([second, first])
    await replacedAgo(id, "1 hour 1 second")
    expect(await signing(id, "paystack")).toEqual([second])
    await inProcess(purgeReplaced)
    const left = await database.run((sql) => sql`SELECT 1 FROM rail_credential WHERE account_id = ${id}`)
    expect([left.length, await current(id, "paystack")]).toEqual([1, second])
  })

  it("by concurrent commands leave one current, on the account's rail", async () => {
    const id = await newAccount()
    const rails = ["paystack", "flutterwave"] as const
    await inProcess(
      Effect.forEach(
        Array.from({ length: 24 }, (_, n) => n),
        (n) =>
          n % 5 === 4
            ? Effect.asVoid(switchRail(id, "simulator"))
            : Effect.asVoid(
                replaceCredentials(id, rails[n % 2]!, redacted({ secret_key: `sk_${n}`, webhook_secret: "x" })),
              ),
        { concurrency: "unbounded" },
      ),
    )
    const [counts] = await database.run(
      (sql) => sql<{ all: number; paystack: number; flutterwave: number }>`
        SELECT count(*) AS all, count(*) FILTER (WHERE rail = 'paystack' AND replaced_at IS NULL) AS paystack,
          count(*) FILTER (WHERE rail = 'flutterwave' AND replaced_at IS NULL) AS flutterwave
        FROM rail_credential WHERE account_id = ${id}`,
    )
    expect(counts).toEqual({ all: 20, paystack: 1, flutterwave: 1 })
  })

  it("of many accounts are found together", async () => {
    const ids = await Promise.all(Array.from({ length: 12 }, newAccount))
    await inProcess(
      Effect.forEach(ids.slice(2), (id) => replaceCredentials(id, "paystack", redacted({ secret_key: `sk_${id}` }))),
    )
    const found = await inProcess(
      Effect.flatMap(RailCredentials, ({ find }) =>
        find(
          ids.flatMap((account_id) => [
            { account_id, rail: "paystack" as const },
            { account_id, rail: "flutterwave" },
          ]),
        ),
      ),
    )
    expect([...found.keys()].sort()).toEqual(
      ids
        .slice(2)
        .map((id) => `paystack ${id}`)
        .sort(),
    )
    for (const id of ids.slice(2))
      expect(plain(Result.getOrThrow(found.get(`paystack ${id}`)!))).toEqual({ secret_key: `sk_${id}` })
  })
})
