/** Tests the routing of requests that name a cell, or an account that has moved (decision O2), through a real proxy. */
import type { ChildProcess } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Redacted } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { isRequired } from "../../scripts/debian.ts"
import { findHaproxy, HAPROXY_MISSING, startHaproxy } from "../../scripts/haproxy.ts"
import { generateKey } from "../../src/security/key/key.ts"
import { type Api, createApi } from "../support/api.ts"
import { CELLS, useCells } from "../support/cells.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useDatabase } from "../support/database.ts"
import { addMember } from "../support/member.ts"
import { type HeldPort, holdPort } from "../support/ports.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { codeIn, newVisitor } from "../support/visitor.ts"

/** The address that the proxy will listen on. The servers need it before the proxy can start. */
let reserved: ReadonlyArray<HeldPort>
const origin = () => `http://127.0.0.1:${reserved[0]!.port}`
const admin = () => `127.0.0.1:${reserved[1]!.port}`
const { databases, commandLines, origins, url, createMerchant, move } = useCells(async () => {
  reserved = [await holdPort(), await holdPort()]
  return { PUBLIC_URL: origin() }
})

const folder = mkdtempSync(join(tmpdir(), "recurring-billing-cells-"))
const cellsFile = join(folder, "cells.json")

/** If no proxy is installed and none is required, these tests are skipped, as are hledger's checks. */
const haproxy = findHaproxy()
const itGoesThrough = it.runIf(haproxy !== undefined || isRequired)

let proxy: ChildProcess | undefined
beforeAll(async () => {
  if (haproxy === undefined && isRequired) throw new Error(HAPROXY_MISSING)
  const cells = CELLS.map((cell, side) => ({
    cell,
    database: url(side as 0 | 1),
    servers: [new URL(origins[side]!).host],
  }))
  writeFileSync(cellsFile, JSON.stringify(cells))
  const command = async (...args: ReadonlyArray<string>) => {
    const { code, output, errors } = await commandLines[0]("cell", "haproxy", "--cells", cellsFile, ...args)
    expect([code, errors]).toEqual([0, ""])
    return output
  }
  writeFileSync(join(folder, "cells.map"), await command("--map"))
  const config = join(folder, "haproxy.cfg")
  const listening = ["--bind", new URL(origin()).host, "--admin", admin()]
  writeFileSync(config, await command(...listening, "--folder", folder))
  if (haproxy !== undefined) proxy = await startHaproxy(haproxy, config)
  for (const { release } of reserved) release()
}, 180_000)
afterAll(() => {
  proxy?.kill("SIGTERM")
  rmSync(folder, { recursive: true, force: true })
})

const status = async (address: string): Promise<number> => {
  const { status, body } = await fetch(address)
  await body?.cancel()
  return status
}

/** The page of a checkout session, at the URL that the merchant gets. */
const openCheckout = async (api: Api): Promise<string> => {
  const urls = { success_url: "https://shop.example/yes", cancel_url: "https://shop.example/no" }
  return data(await api.post("/checkout-sessions", { mode: "subscription", plan: await createPlan(api), ...urls }), 201)
    .url
}

/** A link with other characters at those positions. */
const altered = (link: string, from: number, text: string): string => {
  const at = link.lastIndexOf("/") + 1 + from
  return link.slice(0, at) + text + link.slice(at + text.length)
}

describe("a request", () => {
  itGoesThrough("goes to the cell that its key, its link or ?cell= names", async () => {
    for (const [side, cell] of CELLS.entries()) {
      const { keys } = await createMerchant(`Of ${cell}`, side as 0 | 1)
      expect(keys.sk_test.slice("sk_test_".length)).toMatch(new RegExp(`^${cell}`))
      const api = createApi(origin(), keys.sk_test)
      const customer = await createCustomer(api)
      const direct = createApi(origins[side]!, keys.sk_test)
      expect(data(await direct.get(`/customers/${customer}`)).id).toBe(customer)
      const link = await openCheckout(api)
      expect(link).toMatch(new RegExp(`^${origin()}/checkout/${cell}[\\w-]{51}$`))
      expect(await status(link)).toBe(200)
      const elsewhere = createApi(origins[1 - side]!, keys.sk_test)
      expect((await elsewhere.get("/customers")).body.error.code).toBe("key_invalid")
      expect(await status(link.replace(origin(), origins[1 - side]!))).toBe(404)
    }
  })

  it("with an incomplete link gets 404", async () => {
    const { keys } = await createMerchant("Links")
    const link = await openCheckout(createApi(origins[0]!, keys.sk_test))
    const here = link.replace(origin(), origins[0]!)
    expect(await status(here)).toBe(200)
    for (const [from, text] of [
      [0, "7"],
      [0, "7Z"],
      [4, "~"],
      [52, "~"],
    ] as const)
      expect(await status(altered(here, from, text)), `${from}`).toBe(404)
    expect(await status(here.slice(0, -1))).toBe(404)
  })

  itGoesThrough("of a moved account goes where that lives now, by its keys, its links and its ID", async () => {
    const { account, keys } = await createMerchant("Goes")
    const api = createApi(origin(), keys.sk_test)
    const link = await openCheckout(api)
    const moved = await commandLines[0](
      ...["account", "move", account.id, "--to", url(1), "--proxy", admin(), "--json"],
    )
    // A move that takes longer reports it on standard error.
    expect(moved.code, moved.errors).toBe(0)
    expect(JSON.parse(moved.output)).toEqual({
      moved: account.id,
      rows: expect.any(Number),
      gap_ms: expect.any(Number),
    })
    const plans = await api.all("/plans")
    expect(plans.length).toBe(1)
    expect(await status(link)).toBe(200)
    const again = data(await api.get("/checkout-sessions"))[0]
    // The account's new cell now shows its own links. Both lead to the same page.
    expect(again.url).toMatch(new RegExp(`/checkout/${CELLS[1]}`))
    expect(again.url.slice(-43)).toBe(link.slice(-43))
    expect(await status(again.url)).toBe(200)
    const direct = createApi(origins[0]!, keys.sk_test)
    expect((await direct.get("/plans")).body.error.code).toBe("key_invalid")
    const [shown] = JSON.parse((await commandLines[1]("key", "list", "--account", account.id, "--json")).output)
    expect(shown.prefix).toMatch(/^[sp]k_/)

    const map = await commandLines[0]("cell", "haproxy", "--cells", cellsFile, "--map")
    expect(map.output.split("\n").filter(Boolean)).toEqual(expect.arrayContaining([`${account.id} ${CELLS[1]}`]))
  })

  itGoesThrough("of a member goes to the cell that the session, the browser's cookie or the link names", async () => {
    for (const [side, cell] of CELLS.entries()) {
      const email = `member-${cell.toLowerCase()}@shop.example`
      const { account } = await createMerchant(`Members of ${cell}`, side as 0 | 1)
      await addMember(databases[side]!, account.id, "owner", email)
      const one = newVisitor(origin())
      // The browser was at the other cell before.
      await one.get(`/dashboard/sign-in?cell=${CELLS[1 - side]}`)
      await one.get(`/dashboard/sign-in?cell=${cell}`)
      expect(one.cookie("visitor")).toMatch(new RegExp(`^${cell}[\\w-]{43}$`))
      const sent = await one.post("/dashboard/sign-in", { email })
      const { text } = await one.get(sent.location!)
      expect((await one.post("/dashboard/sign-in/code", { code: codeIn(text) })).location).toBe("/dashboard")
      expect(one.cookie("session")).toMatch(new RegExp(`^${cell}[\\w-]{43}$`))
      expect((await one.get("/dashboard/live")).text).toContain(`Members of ${cell}`)
      // A browser with a session signs in at the other cell.
      await one.get(`/dashboard/sign-in?cell=${CELLS[1 - side]}&again=true`)
      const stranger = await one.post("/dashboard/sign-in", { email })
      expect(stranger.location).toMatch(/^\/dashboard\/sign-in\/code/)

      const { link } = JSON.parse((await commandLines[side]!("member", "link", email, "--json")).output)
      const path = new URL(link).pathname
      expect(path).toMatch(new RegExp(`^/dashboard/links/${cell}[\\w-]{43}$`))
      const other = newVisitor(origin())
      await other.get(path)
      expect((await other.post(path)).status).toBe(303)
      expect((await other.get("/dashboard/live")).text).toContain(`Members of ${cell}`)
    }
  })

  itGoesThrough("of an administrator goes where ?cell= says", async () => {
    const made = JSON.parse((await commandLines[0]("admin", "create", "--name", "Ops", "--json")).output)
    expect(made.key).toMatch(/^adm_00/)
    expect((await commandLines[1]("cell", "join", "--from", url(0), "--json")).output).toBe('{"copied":1}\n')
    const { account } = await createMerchant("There", 1)
    const administrator = createApi(origin(), made.key)
    expect((await administrator.get(`/providers/${account.id}/history`)).status).toBe(404)
    expect((await administrator.get(`/providers/${account.id}/history?cell=${CELLS[1]}`)).status).toBe(200)
    expect((await commandLines[0]("admin", "revoke", made.id, "--json")).code).toBe(0)
    expect((await commandLines[1]("cell", "join", "--from", url(0), "--json")).output).toBe('{"copied":1}\n')
    // The servers of the cell are notified.
    const refusal = async () =>
      (await administrator.get(`/providers/${account.id}/history?cell=${CELLS[1]}`)).body.error?.code
    expect(await eventually(refusal)).toBe("key_revoked")
  })
})

describe("commands", () => {
  const empty = useDatabase("template0")
  const nowhere = join(folder, "data")
  const ofProxy = useCommandLine(empty, {
    NODE_ENV: "production",
    DATABASE_URL: "",
    ENCRYPTION_KEY: "",
    DATA_DIR: nowhere,
  })

  it("reach all cells with --cells", async () => {
    const here = await createMerchant("A")
    const there = await createMerchant("B", 1)
    const run = async (...args: ReadonlyArray<string>) => {
      const { code, output, errors } = await commandLines[0](...args, "--cells", cellsFile, "--json")
      expect([code, errors]).toEqual([0, ""])
      return JSON.parse(output)
    }
    const accounts: ReadonlyArray<{ id: string; cell: string }> = await run("account", "list")
    const cellOf = (id: string) => accounts.filter((one) => one.id === id).map(({ cell }) => cell)
    expect([cellOf(here.account.id), cellOf(there.account.id)]).toEqual([[CELLS[0]], [CELLS[1]]])
    expect(await run("ledger", "check")).toMatchObject({ ok: true, problems: [] })
    expect(await run("db", "status")).toMatchObject({ pending: [] })
    expect(await run("invoice", "run", "--account", there.account.id, "--period", "2026-01")).toEqual([])
    const missing = await commandLines[0]("account", "list", "--cells", join(folder, "none.json"))
    expect([missing.code, missing.errors]).toEqual([1, expect.stringContaining("cannot be read")])
  })

  it("with --cells, open only the cells' databases: the proxy's machine has none", async () => {
    for (const args of [
      ["account", "list"],
      ["ledger", "check"],
      ["ledger", "export", "--format", "csv"],
      ["db", "status"],
      ["cell", "haproxy"],
      ["cell", "haproxy", "--map"],
    ]) {
      const { code, errors } = await ofProxy(...args, "--cells", cellsFile)
      expect([code, errors], args.join(" ")).toEqual([0, ""])
    }
    // Links on invoices are signed by the cells' secrets.
    const drawn = await ofProxy("invoice", "run", "--cells", cellsFile)
    expect([drawn.code, drawn.errors]).toEqual([1, expect.stringContaining("set ENCRYPTION_KEY")])
    expect(existsSync(nowhere)).toBe(false)
  })

  it("report what a cell's database lacks, even if it is empty", async () => {
    const file = join(folder, "with-empty.json")
    const entry = (cell: string, database: string) => ({ cell, database, servers: ["127.0.0.1:3000"] })
    writeFileSync(file, JSON.stringify([entry(CELLS[0], url(0)), entry(CELLS[1], Redacted.value(empty.url()))]))
    const status = async (...args: ReadonlyArray<string>) =>
      JSON.parse((await ofProxy("db", "status", ...args, "--json")).output)
    const { applied: all } = await status("--cells", cellsFile)
    expect(await status("--cells", file)).toEqual({ applied: [], pending: all })
    const checked = await ofProxy("ledger", "check", "--cells", file)
    expect([checked.code, checked.errors]).toEqual([
      1,
      expect.stringContaining(`the database of ${CELLS[1]} cannot be`),
    ])
    writeFileSync(file, JSON.stringify([entry(CELLS[0], url(1))]))
    const swapped = await ofProxy("db", "status", "--cells", file)
    expect([swapped.code, swapped.errors]).toEqual([
      1,
      `--cells: the database of ${CELLS[0]} is the cell ${CELLS[1]}.\n`,
    ])
  })

  it("abort a move that was killed at any step, but only at the target cell", async () => {
    const { account, keys } = await createMerchant("Stays")
    const here = createApi(origins[0]!, keys.sk_test)
    const made = await createCustomer(here)
    for (const step of ["copying", "fencing", "compared"] as const) {
      expect((await move(account.id, 0, step)).code, step).toBe(null)
      const wrong = await commandLines[0]("account", "move", account.id, "--to", url(0), "--abandon")
      expect([wrong.code, wrong.errors]).toEqual([1, expect.stringContaining("which this is not")])
      const given = await commandLines[0]("account", "move", account.id, "--to", url(1), "--abandon", "--json")
      expect([step, given.output, given.errors]).toEqual([step, `{"abandoned":"${account.id}"}\n`, ""])
      data(await here.patch(`/customers/${made}`, { name: step }))
      const left = await databases[1].run((sql) => sql`SELECT 1 FROM customer WHERE account_id = ${account.id}`)
      expect(left).toEqual([])
    }
    expect((await move(account.id, 0, "opened")).code).toBe(null)
    const late = await commandLines[0]("account", "move", account.id, "--to", url(1), "--abandon")
    expect([late.code, late.errors]).toEqual([1, expect.stringContaining("lives in the cell 7Z already")])
    expect((await move(account.id, 0)).errors).toBe("")
    expect(data(await createApi(origins[1]!, keys.sk_test).get(`/customers/${made}`)).name).toBe("compared")
  })

  it("refuse to mix cells", async () => {
    const errors = async (side: 0 | 1, ...args: ReadonlyArray<string>) => (await commandLines[side](...args)).errors
    expect(await errors(0, "cell", "join", "--from", url(0))).toContain("Both would be the cell 00")
    expect(await errors(0, "account", "move", "acct_none", "--to", url(1))).toContain("No such account")
    expect(await errors(0, "account", "move", "acct_service", "--to", url(1))).toContain("does not move")
    expect(await errors(0, "account", "move", "acct_none", "--to", url(0))).toContain("The other cell is also 00")
    expect(await errors(0, "account", "move", "acct_none", "--to", "postgres://nobody@127.0.0.1:1/none")).toContain(
      "--to",
    )
    expect(await errors(0, "account", "move", "acct_none", "--to", url(1), "--abandon")).toContain("not on its way")
    const wrong = Redacted.value(generateKey("secret", false, CELLS[1]).key)
    expect((await createApi(origins[0]!, wrong).get("/customers")).body.error.code).toBe("key_invalid")
    const [cell] = await databases[1].run((sql) => sql<{ id: string; joined: boolean }>`SELECT id, joined FROM cell`)
    expect(cell).toEqual({ id: CELLS[1], joined: true })
  })
})
