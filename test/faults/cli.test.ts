/** Tests the operator's command line: its refusals and their messages (docs/operating.md). */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { ROOT } from "../../scripts/server.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createKey } from "../../src/security/key/apiKeys.ts"
import { useDatabase } from "../support/database.ts"
import { runToEnd } from "../support/server.ts"

const database = useDatabase()
const cli = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  runToEnd("src/cli.ts", args, { DATABASE_URL: Redacted.value(database.url()), ...env })

describe.concurrent("the command line", () => {
  it.each([
    [["db", "url", "extra"], "extra"],
    [["account", "show", "acct_1", "acct_2"], "acct_2"],
    [["account", "list", "--grace", "1h"], "--grace"],
    [["account", "create"], "--business-name"],
    [["account", "create", "--business-name", " "], "--business-name"],
    [["account", "create", "--business-name", "\u200b\u202e"], "--business-name"],
    [["account", "create", "--business-name", "X\u0001"], "--business-name"],
    [["admin", "create", "--name", "\u200b"], "--name"],
    [["admin", "create", "--name", "X\u001b"], "--name"],
    [["account", "create", "--business-name", "X".repeat(121)], "--business-name"],
    [["account", "create", "--business-name", "X", "--email", "nowhere"], "--email"],
    [["account", "create", "--business-name", "X", "--api-plan", "huge"], "--api-plan"],
    [["ledger", "check", "--colour"], "--colour"],
    [["ledger"], "Usage"],
    [["account", "move"], "Usage: account move ACCOUNT --to URL [--proxy ADDRESS] [--abandon]"],
    [["cell", "haproxy", "--bind", ":70000"], "--bind"],
  ] as const)("refuses bad usage with exit code 2: %j", async (args, named) => {
    const { code, output, errors } = await cli([...args, "--json"])
    expect([code, output]).toEqual([2, ""])
    expect(errors).toContain(named)
  })

  it("reports unknown objects with exit code 1", async () => {
    for (const args of [
      ["journal", "replay", "sub_nowhere"],
      ["account", "show", "acct_nowhere"],
      ["key", "revoke", "key_nowhere"],
    ]) {
      const { code, output, errors } = await cli([...args, "--json"])
      expect([code, output, errors.includes(args.at(-1)!)], args.join(" ")).toEqual([1, "", true])
    }
  })

  it("names a database that it cannot reach, and the reason", async () => {
    const nowhere = "postgres://billing:hunter2@127.0.0.1:1/billing"
    for (const [named, args, env] of [
      ["The database cannot be used (DATABASE_URL)", ["account", "list"], { DATABASE_URL: nowhere }],
      ["--to: the database cannot be used", ["account", "move", "acct_1", "--to", nowhere], {}],
    ] as const)
      expect(await cli(args, env)).toEqual({
        code: 1,
        output: "",
        errors: `${named}: connect ECONNREFUSED 127.0.0.1:1\n`,
      })
  })

  it("gives a key only valid scopes, and no live key without live access", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "Scoped", liveAccess: "approved" }))
    const restricted = ["key", "create", "--account", account.id, "--mode", "test", "--type", "restricted", "--json"]
    expect((await cli([...restricted, "--scope", "usage=write"])).code).toBe(2)
    const made = await cli([...restricted, "--scope", "usage=read", "--scope", "plans=write"])
    expect([made.code, Object.keys(JSON.parse(made.output))]).toEqual([0, ["id", "key"]])
    const narrowed = await cli([...restricted, "--scope", "plans=write", "--scope", "plans=none"])
    const listed = JSON.parse((await cli(["key", "list", "--account", account.id, "--json"])).output)
    const { scopes } = listed.find(({ id }: { id: string }) => id === JSON.parse(narrowed.output).id)
    expect(scopes).toEqual({})

    const { id } = await database.run(() => createKey({ account_id: account.id, livemode: true }, "secret"))
    expect((await cli(["account", "live-access", account.id, "suspend"])).code).toBe(0)
    const rolled = await cli(["key", "roll", id, "--grace", "0", "--json"])
    expect([rolled.code, rolled.output]).toEqual([1, ""])
    expect(rolled.errors).toContain("suspended")
  })

  it("opens psql at the database's address, including its parameters", async () => {
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-psql-"))
    writeFileSync(join(folder, "psql"), '#!/bin/sh\necho "$PGHOST $PGPORT $PGDATABASE $*"', { mode: 0o755 })
    const address = new URL(Redacted.value(database.url()))
    const there = [address.hostname, address.port, address.pathname.slice(1), "-c", "SELECT 1"].join(" ")
    address.searchParams.set("host", address.hostname)
    address.hostname = "elsewhere.example"
    const env = { DATABASE_URL: address.href, PATH: `${folder}:${process.env.PATH}` }
    const { code, output, errors } = await runToEnd("scripts/sql.ts", ["-c", "SELECT 1"], env)
    expect([code, output, errors]).toEqual([0, `${there}\n`, ""])
    rmSync(folder, { recursive: true })
    const without = await runToEnd("scripts/sql.ts", [], { ...env, PATH: folder })
    expect([without.code, without.output]).toEqual([1, ""])
    expect(without.errors).toContain("psql is not installed here.")
  })

  it("stays alive beside psql when a terminal's interrupt reaches both", async () => {
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-psql-"))
    const psql = `#!/usr/bin/env node
      process.on("SIGINT", () => console.log("canceled")); process.stdin.resume().on("end", () => process.exit(3)); console.log("started")`
    writeFileSync(join(folder, "psql"), psql, { mode: 0o755 })
    const env = { DATABASE_URL: Redacted.value(database.url()), PATH: `${folder}:${dirname(process.execPath)}` }
    const child = spawn(process.execPath, [join(ROOT, "scripts/sql.ts")], { env, detached: true })
    const exited = once(child, "exit")
    for await (const chunk of child.stdout) {
      if (String(chunk).includes("started")) process.kill(-child.pid!, "SIGINT")
      if (String(chunk).includes("canceled")) child.stdin.end()
    }
    expect(await exited).toEqual([3, null])
    rmSync(folder, { recursive: true })
  })

  it("in production, sends nothing to another cell's database in plain text", async () => {
    const folder = mkdtempSync(join(tmpdir(), "recurring-billing-cli-"))
    const cells = join(folder, "cells.json")
    const remote = "postgres://billing:hunter2@10.255.255.1/billing"
    const here = { cell: "00", database: Redacted.value(database.url()), servers: ["127.0.0.1:3000"] }
    writeFileSync(cells, JSON.stringify([here, { cell: "01", database: remote, servers: ["127.0.0.1:3001"] }]))
    for (const [named, ...args] of [
      ["--from", "cell", "join", "--from", remote],
      ["--to", "account", "move", "acct_1", "--to", remote],
      [`--cells: in ${cells} the database of 01`, "account", "list", "--cells", cells],
      [`--cells: in ${cells} the database of 01`, "cell", "haproxy", "--cells", cells],
    ] as const) {
      const { code, output, errors } = await cli(args, { NODE_ENV: "production" })
      const line = `${named} must ask for TLS when NODE_ENV=production: add ?sslmode=verify-full to it.\n`
      expect([code, output, errors]).toEqual([1, "", line])
    }
    rmSync(folder, { recursive: true })
  })
})
