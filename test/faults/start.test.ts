import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { Effect, Redacted } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { temporaryDataDir } from "../../scripts/dataDir.ts"
import { ENCRYPTION_KEY, ROOT, startServer as startWith } from "../../scripts/server.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { demoKey } from "../../src/merchants/account/demo.ts"
import { hashKey } from "../../src/security/key/key.ts"
import { createApi } from "../support/api.ts"
import { type TestDatabase, useDatabase } from "../support/database.ts"
import { startProxy } from "../support/proxy.ts"
import { runToEnd, startServer } from "../support/server.ts"
import { createCustomer, eventually } from "../support/story.ts"

const database = useDatabase()

const start = (env: Readonly<Record<string, string>>, args: ReadonlyArray<string> = []) =>
  runToEnd("src/main.ts", args, { DATABASE_URL: Redacted.value(database.url()), ...env })

describe.concurrent("a start that must fail", () => {
  it.each([
    // Invalid settings are tested in test/config.test.ts.
    [{ BILLING_COLOR: "red" }, "BILLING_COLOR"],
    [{ DATABASE_URL: "postgres://127.0.0.1:9/none" }, "DATABASE_URL"],
    [{ NODE_ENV: "production", ENCRYPTION_KEY: "" }, "ENCRYPTION_KEY"],
  ])("prints one line that says what to change: %j", async (env, name) => {
    const { code, errors } = await start(env as Record<string, string>)
    expect(code).toBe(1)
    expect(errors.trim().split("\n")).toHaveLength(1)
    expect(errors).toContain(name)
  })

  it("refuses a database without TLS if DATABASE_URL requires it", async () => {
    const { code, errors } = await start({ DATABASE_URL: `${Redacted.value(database.url())}?sslmode=require` })
    expect([code, errors.trim()]).toEqual([
      1,
      "The database cannot be used (DATABASE_URL): The server does not support TLS",
    ])
  })

  it("names the port that is in use", async () => {
    const other = createServer().listen(0, "127.0.0.1")
    await new Promise((resolve) => other.once("listening", resolve))
    const { port } = other.address() as { port: number }
    for (const [prefix, env] of [
      ["", {}],
      ["METRICS_", { PORT: "0" }],
    ] as const) {
      const name = `${prefix}PORT`
      const { code, errors } = await start({ ...env, [name]: String(port) })
      expect([code, errors.trim()]).toEqual([
        1,
        `${name} ${port} on 127.0.0.1 is in use: stop the other program or set ${name}.`,
      ])
    }
    other.close()
  })

  it("names an address that does not belong to this machine", async () => {
    const { code, errors } = await start({ PORT: "0", METRICS_PORT: "9464", METRICS_HOST: "192.0.2.1" })
    expect([code, errors.trim()]).toEqual([
      1,
      "Cannot listen on METRICS_HOST 192.0.2.1, METRICS_PORT 9464: EADDRNOTAVAIL.",
    ])
  })

  it("names an unusable DATA_DIR", async () => {
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-dir-"))
    const file = join(folder, "file")
    writeFileSync(file, "")
    chmodSync(file, 0o400)
    // If /proc exists, it reports that the path does not exist.
    for (const dataDir of [join(file, "data"), "/proc/none/data"]) {
      const { code, errors } = await runToEnd("src/main.ts", [], { DATA_DIR: dataDir })
      expect([code, errors.trim()]).toEqual([1, `DATA_DIR cannot be written: ${dataDir}.`])
    }
    rmSync(folder, { recursive: true })
  })
})

describe("processes of one DATA_DIR", () => {
  const PROGRAM = `
    import { useEmbeddedServer } from ${JSON.stringify(join(import.meta.dirname, "../../src/postgres/embedded.ts"))}
    import { Redacted } from "effect"
    const { url, release } = await useEmbeddedServer(process.argv[1])
    process.stdout.write(Redacted.value(url))
    process.stdin.on("end", release).resume()
  `
  const run = (folder: string) => {
    const child = spawn(process.execPath, ["--input-type=module", "--eval", PROGRAM, folder], {
      stdio: ["pipe", "pipe", "inherit"],
    })
    return { url: once(child.stdout, "data").then(String), ended: once(child, "close"), end: () => child.stdin.end() }
  }

  it("share one server, and ignore the lock of a dead one; the last of two to end stops it", async () => {
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-users-"))
    const { pid } = spawnSync(process.execPath, ["--eval", ""])
    mkdirSync(join(folder, "lock"))
    writeFileSync(join(folder, "lock/pid"), String(pid))
    const all = [run(folder), run(folder), run(folder)]
    const urls = await Promise.all(all.map(({ url }) => url))
    expect(new Set(urls).size).toBe(1)
    const cluster = readFileSync(join(folder, "location"), "utf8").trim()
    expect(existsSync(join(cluster, "postmaster.pid"))).toBe(true)
    for (const { end } of all) end()
    await Promise.all(all.map(({ ended }) => ended))
    expect(existsSync(join(cluster, "postmaster.pid"))).toBe(false)
    for (const path of [folder, cluster]) rmSync(path, { recursive: true, force: true })
  })
})

describe("an install that is older than package-lock.json", () => {
  const folder = mkdtempSync(join(tmpdir(), "recurring-billing-install-"))
  const write = (path: string, content: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  const packages = (entries: object) => JSON.stringify({ packages: { "": {}, ...entries } })
  const service = { "node_modules/service": { version: "1.0.0" } }
  /** Runs an entry point whose npm reports an install, and fails. */
  const run = (entry: string) => {
    const { stdout, stderr } = spawnSync(process.execPath, [join(folder, "scripts/run.mjs"), entry], {
      encoding: "utf8",
      env: { npm_execpath: join(folder, "npm.mjs") },
    })
    return { ran: stdout === "ran", installed: stderr.includes("npm ci") }
  }

  beforeAll(() => {
    write("scripts/run.mjs", readFileSync(join(import.meta.dirname, "../../scripts/run.mjs"), "utf8"))
    for (const entry of ["src/main.mjs", "scripts/test.mjs"]) write(entry, 'process.stdout.write("ran")')
    write("npm.mjs", "process.stderr.write(`npm ${process.argv[2]}`); process.exit(1)")
    write("node_modules/.package-lock.json", packages(service))
    utimesSync(join(folder, "node_modules/.package-lock.json"), 0, 0)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  it("is accepted for the service without development packages, and for nothing else", () => {
    write("package-lock.json", packages({ ...service, "node_modules/tests": { version: "1.0.0", dev: true } }))
    expect(run("src/main.mjs")).toEqual({ ran: true, installed: false })
    expect(run("scripts/test.mjs")).toEqual({ ran: false, installed: true })
  })

  it("is repeated if a package of the service differs", () => {
    write("package-lock.json", packages({ "node_modules/service": { version: "1.0.1" } }))
    expect(run("src/main.mjs")).toEqual({ ran: false, installed: true })
  })

  it("is repeated once by concurrent starts, also after one that was killed", async () => {
    write("package-lock.json", packages({ "node_modules/service": { version: "1.0.2" } }))
    write(".installing", String(spawnSync(process.execPath, ["--version"]).pid))
    write(
      "npm.mjs",
      `import { appendFileSync, copyFileSync, existsSync } from "node:fs"
      appendFileSync("installs", "once ")
      while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 10))
      copyFileSync("package-lock.json", "node_modules/.package-lock.json")`,
    )
    const start = () => {
      const child = spawn(process.execPath, [join(folder, "scripts/run.mjs"), "src/main.mjs"], {
        env: { npm_execpath: join(folder, "npm.mjs") },
      })
      const says = (words: string) =>
        new Promise<void>((resolve) => {
          child.stderr.on("data", (chunk) => String(chunk).includes(words) && resolve())
        })
      const ran = new Promise<string>((resolve) => {
        let output = ""
        child.stdout.on("data", (chunk) => {
          output += chunk
        })
        child.once("close", () => resolve(output))
      })
      return { says, ran }
    }
    const first = start()
    await first.says("Installing")
    const second = start()
    await second.says("Another process")
    write("go", "")
    expect(await Promise.all([first.ran, second.ran])).toEqual(["ran", "ran"])
    expect(readFileSync(join(folder, "installs"), "utf8")).toBe("once ")
  })
})

/** The working secret keys of the sandbox, by their hashes. */
const liveKeys = async (database: TestDatabase): Promise<ReadonlyArray<string>> => {
  const rows = await database.run(
    (sql) => sql<{ hash: Uint8Array }>`
      SELECT hash FROM api_key WHERE type = 'secret' AND NOT livemode AND revoked_at IS NULL`,
  )
  return rows.map(({ hash }) => Buffer.from(hash).toString("hex"))
}
const hashOf = (key: string): string => Buffer.from(hashKey(key)).toString("hex")

/** A folder that does not exist yet. */
const useFolder = () => {
  const parent = mkdtempSync(join(tmpdir(), "recurring-billing-demo-"))
  afterAll(() => rmSync(parent, { recursive: true }))
  return join(parent, "data")
}

describe("npm start with its own database", () => {
  const own = useDatabase()
  const folder = useFolder()

  it("needs no DATA_DIR, is ready when it reports it, and keeps one key from then on", async () => {
    const env = { DATABASE_URL: Redacted.value(own.url()), DATA_DIR: folder }
    const keys: Array<string> = []
    for (let started = 0; started < 2; started++) {
      const server = await startWith(env, undefined, ["--development"])
      expect((await fetch(`${server.origin}/readyz`)).status).toBe(200)
      keys.push(await eventually(async () => /Demo key: +(\S+)/.exec(server.output())?.[1]))
      expect((await createApi(server.origin, keys[0]).get("/account")).status).toBe(200)
      expect(await server.stop()).toBe(0)
    }
    expect(keys[1]).toBe(keys[0])
    expect(await liveKeys(own)).toEqual([hashOf(keys[0]!)])
  })

  it("shows a working call, or the requirement of calls if plain HTTP is refused", async () => {
    const env = { DATABASE_URL: Redacted.value(own.url()), DATA_DIR: folder }
    for (const [over, shown, not] of [
      [{}, "  curl http://127.0.0.1:", "Plain HTTP"],
      [{ ALLOW_INSECURE_HTTP: "false" }, "Plain HTTP is refused", "curl"],
      [
        { ALLOW_INSECURE_HTTP: "false", PUBLIC_URL: "https://billing.example" },
        "  curl https://billing.example/sandbox",
        "Plain HTTP",
      ],
    ] as const) {
      const server = await startWith({ ...env, ...over }, undefined, ["--development"])
      const output = await eventually(async () => (server.output().includes("Demo key") ? server.output() : undefined))
      expect(output).toContain(shown)
      expect(output).not.toContain(not)
      expect(await server.stop()).toBe(0)
    }
  })

  it("ends in the same way as its server if only npm is asked to end", async () => {
    const { PATH, HOME } = process.env
    const env = { PATH, HOME, ENCRYPTION_KEY, DATABASE_URL: Redacted.value(own.url()), DATA_DIR: folder, PORT: "0" }
    const npm = spawn("npm", ["start"], { cwd: ROOT, env, stdio: ["ignore", "pipe", "inherit"] })
    // After all its child processes have closed its output.
    const closed = once(npm, "close")
    for await (const chunk of npm.stdout) if (String(chunk).includes("Demo key")) npm.kill("SIGTERM")
    expect(await closed).toEqual([0, null])
  })
})

describe("the demo", () => {
  it("leaves nothing if it is ended early", async () => {
    const folder = temporaryDataDir("demo")
    const env = { PATH: process.env.PATH, TMPDIR: folder.path }
    const demo = spawn(process.execPath, [join(ROOT, "scripts/demo.ts")], { env, stdio: ["ignore", "pipe", "inherit"] })
    const closed = once(demo, "close")
    for await (const chunk of demo.stdout) if (String(chunk).includes("joins")) demo.kill("SIGTERM")
    expect(await closed).toEqual([130, null])
    expect(readdirSync(folder.path)).toEqual([])
    folder.remove()
  })
})

describe("the demo account's key", () => {
  const first = useDatabase()
  const second = useDatabase()
  const third = useDatabase()
  const folder = useFolder()
  const file = join(folder, "demo-key")

  it("is stored or shown if it works, wherever the process died", async () => {
    const died = await first.run((sql) =>
      Effect.flip(sql.withTransaction(Effect.andThen(demoKey(folder), Effect.fail("died" as const)))),
    )
    expect(died).toBe("died")
    expect(await liveKeys(first)).toEqual([])
    // In the middle of a line.
    writeFileSync(file, readFileSync(file, "utf8").slice(0, -10))
    const key = (await first.run(() => demoKey(folder)))!
    expect(await liveKeys(first)).toEqual([hashOf(key)])
    expect(await first.run(() => demoKey(folder))).toBe(key)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it("differs in another database with the same DATA_DIR, and is the first one again after switching back", async () => {
    const key = await first.run(() => demoKey(folder))
    const other = (await second.run(() => demoKey(folder)))!
    expect(other).not.toBe(key)
    expect(await first.run(() => demoKey(folder))).toBe(key)
    expect(await second.run(() => demoKey(folder))).toBe(other)
    expect(await liveKeys(second)).toEqual([hashOf(other)])
  })

  it("is the same for concurrent processes", async () => {
    const keys = await third.run(() =>
      Effect.all([demoKey(folder), demoKey(folder), demoKey(folder)], { concurrency: "unbounded" }),
    )
    expect(new Set(keys).size).toBe(1)
    expect(await liveKeys(third)).toEqual([hashOf(keys[0]!)])
  })

  it("is new if the one before was revoked, and is not made if it cannot be stored", async () => {
    const before = await third.run(() => demoKey(folder))
    await third.run((sql) => sql`UPDATE api_key SET revoked_at = now() WHERE hash = ${hashKey(before!)}`)
    const blocked = join(folder, "blocked")
    mkdirSync(blocked)
    symlinkSync(join(folder, "nowhere", "demo-key"), join(blocked, "demo-key"))
    const problem = await third.run(() => Effect.flip(demoKey(blocked)))
    expect(problem.message).toBe(`DATA_DIR cannot be written: ${join(blocked, "demo-key")}.`)
    expect(await liveKeys(third)).toEqual([])
    const after = (await third.run(() => demoKey(folder)))!
    expect(after).not.toBe(before)
    expect(await liveKeys(third)).toEqual([hashOf(after)])
  })
})

describe.concurrent("plain HTTP", () => {
  it("is refused unless a trusted proxy received HTTPS", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Secure" }))
    const server = await startServer(database.url(), { ALLOW_INSECURE_HTTP: "false", TRUST_PROXY: "true" })
    const api = createApi(server.origin, keys.sk_test)
    const refused = await api.get("/account")
    expect([refused.status, refused.body.error.type, refused.body.error.code]).toEqual([
      403,
      "permission_error",
      "https_required",
    ])
    const write = await api.post("/customers", {})
    expect([write.status, write.headers.get("x-service-billable")]).toEqual([403, "false"])
    expect((await api.request("GET", "/account", undefined, { "x-forwarded-proto": "https" })).status).toBe(200)
    for (const path of ["/docs", "/openapi.json", "/invoices/inv_1.pdf"])
      expect((await fetch(server.origin + path)).status, path).toBe(403)
    for (const path of ["/healthz", "/readyz"]) expect((await fetch(server.origin + path)).status, path).toBe(200)
    await server.stop()
  })
})

describe.concurrent("a lost database", () => {
  it("returns 503 with Retry-After, and recovers when it is back", async () => {
    const { keys } = await database.run(() => createAccount({ businessName: "Away" }))
    const proxy = await startProxy(database.url())
    const server = await startServer(proxy.url)
    const api = createApi(server.origin, keys.sk_test)
    await createCustomer(api)
    proxy.cut()
    const answer = await api.post("/customers", { name: "Nobody" })
    expect([answer.status, answer.body.error.type, answer.body.error.code]).toEqual([
      503,
      "api_error",
      "service_unavailable",
    ])
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0)
    const readiness = await fetch(`${server.origin}/readyz`)
    expect([readiness.status, await readiness.json()]).toEqual([503, { status: "database unreachable" }])
    expect((await fetch(`${server.origin}/healthz`)).status).toBe(200)
    proxy.mend()
    await eventually(async () => ((await api.get("/customers")).status === 200 ? true : undefined))
    await createCustomer(api)
    expect(await server.stop()).toBe(0)
    proxy.close()
  })
})
