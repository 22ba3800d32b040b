import { Effect } from "effect"
import { extractText, getDocumentProxy } from "unpdf"
import { describe, expect, it } from "vitest"
import { totalOf } from "../machines/billing.ts"
import { dayInWords, monthInWords } from "../src/base/time.ts"
import { createAccount, setPlan, transitionLiveAccess } from "../src/merchants/account/accounts.ts"
import type { InvoiceRow } from "../src/merchants/invoice/invoice.ts"
import {
  createInvoices,
  drawLastMonth,
  invoiceTimers,
  readInvoices,
  transitionInvoice,
} from "../src/merchants/invoice/invoices.ts"
import { invoiceLines } from "../src/merchants/invoice/lines.ts"
import { invoicePdf } from "../src/merchants/invoice/pdf.ts"
import { monthOf } from "../src/merchants/usage/allowances.ts"
import { sweep } from "../src/runtime/fire.ts"
import { createApi } from "./support/api.ts"
import { useCommandLine } from "./support/commandLine.ts"
import { useOwnInstance } from "./support/instance.ts"
import { useServices } from "./support/services.ts"
import { data, eventually, refusal } from "./support/story.ts"
import { useWhole } from "./support/whole.ts"

const SELLER = {
  SELLER_NAME: "Billing Nigeria Ltd",
  SELLER_ADDRESS: "12 Marina, Lagos",
  SELLER_TIN: "12345678-0001",
  SELLER_EMAIL: "accounts@billing.example",
  SELLER_BANK: "Zenith Bank, 1012345678",
}
const { database, server, stranger } = useOwnInstance(() => ({ WORKERS: "0", ...SELLER }))
useWhole(database)

const LAST = monthOf(Date.now(), -1)

/** A database client for all accounts, as a worker has. */
const run = useServices(database)
const others = Array.from({ length: 3 }, () => useServices(database))

const merchant = async (apiPlan: "starter" | "growth" | "scale" | "enterprise" = "starter") => {
  const { account, keys } = await database.run(() =>
    createAccount({ businessName: "Ikeja Gym", liveAccess: "approved", apiPlan }),
  )
  await database.run(
    (sql) => sql`UPDATE account SET created_at = created_at - interval '100 days' WHERE id = ${account.id}`,
  )
  return {
    id: account.id,
    live: createApi(server().origin, keys.sk_live!, "live"),
    sandbox: createApi(server().origin, keys.sk_test),
  }
}

/** A merchant that has had live access for all of last month, and for long before. */
const newcomer = async () => {
  const { account } = await database.run(() => createAccount({ businessName: "Yaba Gym" }))
  await database.run(
    (sql) => sql`UPDATE account SET created_at = created_at - interval '100 days' WHERE id = ${account.id}`,
  )
  for (const move of ["request", "approve"] as const) await database.run(() => transitionLiveAccess(account.id, move))
  return account.id
}

const used = (account: string, writes: number, nudges: number) =>
  database.run(
    (sql) => sql`
      INSERT INTO usage_counter (account_id, livemode, period_start_at, write_requests, nudges)
      VALUES (${account}, true, ${new Date(LAST.start)}, ${writes}, ${nudges})`,
  )

const books = (merchant: string) =>
  database.run(
    (sql) => sql<{ ledger_account: string; kobo: number }>`
      SELECT ledger_account, sum(amount_kobo)::bigint AS kobo FROM ledger_line l
      WHERE account_id = 'acct_service' AND entry_id IN (SELECT entry_id FROM ledger_line WHERE account_id = 'acct_service' AND detail = ${merchant})
      GROUP BY 1 ORDER BY 1`,
  )

describe("an invoice's lines", () => {
  const month = { start: Date.UTC(2026, 10, 1), end: Date.UTC(2026, 11, 1), changes: [], writes: 0, nudges: 0 } as const

  it("are the plan's fee, and the usage beyond it", () => {
    const lines = invoiceLines({ ...month, plan: "starter", writes: 7001, nudges: 53 })
    expect(lines.map(({ type, quantity, unit_amount, amount }) => [type, quantity, unit_amount, amount])).toEqual([
      ["plan_fee", 1, 500_000, 500_000],
      ["write_request_overage", 3, 10, 30],
      ["nudge_overage", 3, 5_000, 15_000],
    ])
    expect(totalOf(lines)).toBe(515_030)
  })

  it("charge each plan for its share of the month", () => {
    const lines = invoiceLines({
      ...month,
      plan: "starter",
      changes: [
        { at: Date.UTC(2026, 10, 16), to: "growth" },
        { at: Date.UTC(2026, 10, 26), to: "starter" },
      ],
    })
    // 15 of 30 days more, then 5 of 30 days less.
    expect(lines.map(({ type, amount }) => [type, amount])).toEqual([
      ["plan_fee", 500_000],
      ["proration", 2_250_000],
      ["proration", -750_000],
    ])
  })

  it("cap the cost of nudges for an enterprise", () => {
    const lines = invoiceLines({ ...month, plan: "enterprise", nudges: 10_000 })
    expect(lines.map(({ type, amount }) => [type, amount])).toEqual([
      ["plan_fee", 75_000_000],
      ["nudge_overage", 12_500_000],
      ["credit", -2_500_000],
    ])
  })
})

/** Creates an account's invoice of last month, and returns it. */
const drawOne = (id: string) =>
  run(Effect.map(Effect.andThen(createInvoices(LAST, id), readInvoices(LAST, id)), ([drawn]) => drawn!))

describe("last month's invoice (decision K4)", () => {
  it("is created once, however many processes create it at the same time", async () => {
    const { id, live, sandbox } = await merchant()
    await used(id, 5001, 0)
    await Promise.all([run, ...others].map((worker) => worker(createInvoices(LAST))))
    await run(drawLastMonth)
    const invoices = (await live.get("/account/invoices")).body.data
    expect(invoices).toHaveLength(1)
    expect(invoices[0]).toMatchObject({
      object: "invoice",
      livemode: true,
      currency: "NGN",
      period_start: new Date(LAST.start).toISOString(),
      period_end: new Date(LAST.end).toISOString(),
      due_at: new Date(LAST.end + 7 * 86_400_000).toISOString(),
      total: 500_010,
      paid_at: null,
    })
    expect(await sandbox.all("/account/invoices")).toEqual([])
    const path = `/account/invoices/${invoices[0].id}`
    expect(data(await live.get(path))).toMatchObject({ id: invoices[0].id, total: 500_010 })
    const other = await merchant()
    for (const one of [sandbox, other.live]) expect((await one.get(path)).status).toBe(404)
    expect(await books(id)).toEqual([
      { ledger_account: "fee_revenue", kobo: -500_010 },
      { ledger_account: "receivable", kobo: 500_010 },
    ])
  })

  it("is skipped for a month before live access, and is created for the month of its approval", async () => {
    const id = await newcomer()
    const current = monthOf(Date.now())
    expect(await run(createInvoices(LAST, id))).toEqual([])
    expect(await run(readInvoices(LAST, id))).toEqual([])
    expect(await run(createInvoices(current, id))).toEqual([])
    expect(await run(readInvoices(current, id))).toMatchObject([{ account_id: id, period_start_at: current.start }])
    // A suspended and reinstated merchant counts as a customer without a break.
    const { id: old } = await merchant()
    for (const move of ["suspend", "reinstate"] as const) await database.run(() => transitionLiveAccess(old, move))
    await run(createInvoices(LAST, old))
    expect(await run(readInvoices(LAST, old))).toHaveLength(1)
  })

  it("that cannot be created delays no others, and its account is named", async () => {
    const [broken, sound] = [await merchant(), await merchant()]
    const refusing = (work: string) => database.run((sql) => sql.unsafe(`ALTER TABLE invoice ${work}`).unprepared)
    await refusing(`ADD CONSTRAINT refused CHECK (account_id <> '${broken.id}') NOT VALID`)
    const failed = await run(createInvoices(LAST))
    const drawn = await run(readInvoices(LAST))
    await refusing("DROP CONSTRAINT refused")
    expect(failed).toEqual([broken.id])
    expect(drawn.map(({ account_id }) => account_id)).toContain(sound.id)
    expect(await run(createInvoices(LAST, broken.id))).toEqual([])
  })

  it("is overdue from its due date on, and can be paid then", async () => {
    const { id, live } = await merchant("growth")
    const drawn = await drawOne(id)
    await database.run((sql) => sql`UPDATE timer SET due_at = now() - interval '1 second' WHERE actor_id = ${drawn.id}`)
    await run(Effect.asVoid(sweep([invoiceTimers])))
    const list = async (status: string) => (await live.all(`/account/invoices?status=${status}`)).length
    expect([await list("open"), await list("overdue")]).toEqual([0, 1])
    const paid = await run(transitionInvoice(drawn.id, "pay"))
    expect(paid).toMatchObject({ refused: false, invoice: { state: "paid" } })
    expect((await live.all("/account/invoices?status=paid"))[0].paid_at).toMatch(/Z$/)
    expect(await run(transitionInvoice(drawn.id, "void"))).toMatchObject({ refused: true })
    expect(await books(id)).toEqual([
      { ledger_account: "bank", kobo: 5_000_000 },
      { ledger_account: "fee_revenue", kobo: -5_000_000 },
      { ledger_account: "receivable", kobo: 0 },
    ])
  })

  it("is reversed by a second entry when it is voided", async () => {
    const { id } = await merchant()
    const drawn = await drawOne(id)
    await run(transitionInvoice(drawn.id, "void"))
    const [entry] = await database.run(
      (sql) => sql<{ event: string }>`
        SELECT r.event FROM ledger_entry e JOIN ledger_entry r ON r.id = e.reverses
        WHERE e.idempotency_key = ${`invoice_voided:${drawn.id}`}`,
    )
    expect(entry).toEqual({ event: "invoiced" })
    expect((await books(id)).map(({ kobo }) => kobo)).toEqual([0, 0])
  })

  it("charges plans by the day if the account changed its plan", async () => {
    const { id } = await merchant()
    await database.run(() => setPlan(id, "scale"))
    await database.run(
      (sql) =>
        sql`UPDATE account_plan_change SET created_at = ${new Date((LAST.start + LAST.end) / 2)} WHERE account_id = ${id}`,
    )
    const drawn = await drawOne(id)
    expect(drawn.lines.map(({ type, amount }) => [type, amount])).toEqual([
      ["plan_fee", 500_000],
      ["proration", 9_750_000],
    ])
  })
})

describe("an invoice's PDF", () => {
  it("is behind a signed link, and has selectable text", async () => {
    const { id, live } = await merchant()
    await used(id, 5001, 51)
    await run(createInvoices(LAST, id))
    const [{ pdf_url, total }] = await live.all("/account/invoices")
    expect(total).toBe(505_010)
    const answer = await fetch(pdf_url)
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/pdf"])
    const { text } = await extractText(await getDocumentProxy(new Uint8Array(await answer.arrayBuffer())), {
      mergePages: true,
    })
    const parts = [
      "Ikeja Gym",
      "₦5,000.00",
      "₦0.10",
      "₦50.00",
      "₦5,050.10",
      `Starter plan, ${monthInWords(LAST.start)}`,
    ]
    for (const part of [...parts, ...Object.values(SELLER)]) expect(text).toContain(part)
    // Dates in words, never as 2026-11-08, and headings on one line.
    expect(text).toContain(`${dayInWords(LAST.start)} to ${dayInWords(LAST.end - 1)}`)
    expect(text).toContain(`By: ${dayInWords(LAST.end + 7 * 86_400_000)}`)
    expect(text).toMatch(/Reference: inv_\w{26}/)
    expect(text).not.toMatch(/\d{4}-\d\d-\d\d/)
    expect(text).toMatch(/Description\s+Quantity\s+Unit price\s+Amount/)

    const altered = [
      pdf_url.replace(/signature=./, "signature=_"),
      pdf_url.replace(/expires=\d/, "expires=9"),
      pdf_url.replace(/\?.*/, ""),
      pdf_url.replace(/inv_\w+/, "inv_other"),
    ]
    for (const url of altered) {
      const refused = await fetch(url)
      const body = (await refused.json()) as { error: { code: string } }
      expect([refused.status, body.error.code]).toEqual([403, "link_invalid"])
      const shown = await fetch(url, { headers: { accept: "text/html,application/xhtml+xml,*/*;q=0.8" } })
      expect([shown.status, shown.headers.get("content-type")]).toEqual([403, "text/html; charset=utf-8"])
      expect(await shown.text()).toContain("<h1>This link is not valid</h1>")
    }
  })
})

describe("an invoice of a service without settings about itself", () => {
  const line = (n: number) => ({
    type: "proration" as const,
    description: `Change ${n} `.repeat(9),
    quantity: 1,
    unit_amount: 7_500_000_000,
    amount: 7_500_000_000,
  })
  const invoice: InvoiceRow = {
    account_id: "acct_1",
    livemode: true,
    id: "inv_1",
    version: 1,
    test_clock_id: null,
    state: "open",
    period_start_at: LAST.start,
    period_end_at: LAST.end,
    currency: "NGN",
    lines: Array.from({ length: 60 }, (_, n) => line(n)),
    total_kobo: 450_000_000_000,
    vat_kobo: 0,
    due_at: LAST.end,
    paid_at: null,
    created_at: LAST.end,
  }
  const seller = { name: "Recurring Billing", address: undefined, tin: undefined, email: undefined, bank: undefined }
  const read = async (over: Partial<InvoiceRow>) => {
    const pdf = await invoicePdf({ invoice: { ...invoice, ...over }, businessName: "Long ".repeat(40), seller })
    return (await extractText(await getDocumentProxy(new Uint8Array(pdf)))).text
  }

  it("shows what it has, and repeats its headings on each page of its lines", async () => {
    const pages = await read({})
    expect(pages.length).toBeGreaterThan(1)
    for (const page of pages) expect(page).toMatch(/Description\s+Quantity\s+Unit price\s+Amount/)
    const text = pages.join("\n")
    for (const part of [
      "Recurring Billing",
      "Address: not stated",
      "TIN: not stated",
      "the account of Recurring Billing that your agreement names",
    ])
      expect(text).toContain(part)
    expect(text.match(/₦75,000,000\.00/g)).toHaveLength(120)
  })

  it("requests no payment after it is paid or void", async () => {
    for (const state of ["paid", "void"] as const)
      expect((await read({ state, paid_at: state === "paid" ? LAST.end : null })).join("")).not.toContain("How to pay")
  })
})

describe("the command line", () => {
  const commandLine = useCommandLine(database)
  const cli = async (...args: ReadonlyArray<string>) => {
    const { code, output, errors } = await commandLine(...args, "--json")
    return { code, errors, json: output === "" ? undefined : JSON.parse(output) }
  }

  it("creates, pays and voids invoices", async () => {
    const { id } = await merchant()
    const first = await cli("invoice", "run", "--account", id)
    expect(first.json).toHaveLength(1)
    expect((await cli("invoice", "run", "--account", id)).json[0].id).toBe(first.json[0].id)
    expect((await cli("invoice", "pay", first.json[0].id)).json.status).toBe("paid")
    const again = await cli("invoice", "pay", first.json[0].id)
    expect([again.code, again.errors]).toEqual([1, expect.stringContaining("cannot be paid")])
    const running = new Date().toISOString().slice(0, 7)
    const early = await cli("invoice", "run", "--account", id, "--period", running)
    expect((await cli("invoice", "void", early.json[0].id)).json.status).toBe("void")
    expect((await cli("invoice", "run", "--period", "2999-01")).code).toBe(2)
    expect((await cli("invoice", "run", "--period", "January")).code).toBe(2)
    expect((await cli("invoice", "pay", "inv_none")).code).toBe(1)
  })

  it("reports the result of invoice run, and why there was nothing to do", async () => {
    const { id } = await merchant()
    const inWords = async (...args: ReadonlyArray<string>) => (await commandLine("invoice", "run", ...args)).output
    const month = monthInWords(LAST.start)
    const first = await inWords("--account", id)
    expect(first).toContain(`${month}: 1 invoice drawn up now, 0 before.`)
    expect(first).toMatch(
      new RegExp(`inv_\\w{26}  ${id}  open    ₦5,000.00  ${dayInWords(LAST.end + 7 * 86_400_000)}  now`),
    )
    expect(await inWords("--account", id)).toContain(`${month}: 0 invoices drawn up now, 1 before.`)
    const { account } = await database.run(() => createAccount({ businessName: "New" }))
    expect(await inWords("--account", account.id)).toBe(
      `There is no invoice for ${month}.\n1 account has no access to live, which is what an invoice is for.\n`,
    )
    expect(await inWords("--account", await newcomer())).toBe(
      `There is no invoice for ${month}.\n1 account was let into live after ${month}.\n`,
    )
  })

  it("creates, lists, rolls and revokes keys", async () => {
    const { id } = await merchant()
    const made = await cli(
      "key",
      "create",
      "--account",
      id,
      "--mode",
      "test",
      "--type",
      "restricted",
      "--scope",
      "plans=write",
      "--scope",
      "customers=read",
    )
    expect(made.json.key).toMatch(/^rk_test_/)
    const mine = createApi(server().origin, made.json.key)
    expect((await mine.get("/plans")).status).toBe(200)
    expect(refusal(await mine.post("/customers", { name: "X" }))[1]).toBe("insufficient_scope")
    const rolled = await cli("key", "roll", made.json.id, "--grace", "24h")
    expect(Date.parse(rolled.json.previous_expires_at) - Date.now()).toBeGreaterThan(86_000_000)
    expect((await createApi(server().origin, rolled.json.key).get("/plans")).status).toBe(200)
    expect((await cli("key", "revoke", rolled.json.id)).json).toEqual({ id: rolled.json.id, status: "revoked" })
    const listed = (await cli("key", "list", "--account", id)).json
    const shown = listed.find((key: { id: string }) => key.id === made.json.id)
    expect(shown).toMatchObject({
      type: "restricted",
      mode: "test",
      prefix: "rk_test_",
      last4: made.json.key.slice(-4),
      scopes: { plans: "write", customers: "read" },
      origins: [],
      status: "rolled",
    })
    for (const [code, ...args] of [
      [2, "key", "create", "--account", id, "--mode", "test", "--type", "secret", "--scope", "plans=read"],
      [2, "key", "create", "--account", id, "--mode", "test", "--type", "restricted", "--scope", "planes=read"],
      [2, "key", "roll", made.json.id],
      [1, "key", "roll", made.json.id, "--grace", "1h"],
      [1, "key", "list", "--account", "acct_none"],
      [1, "key", "revoke", "key_none"],
    ] as const)
      expect((await cli(...args)).code, args.join(" ")).toBe(code)
    const publishable = ["key", "create", "--account", id, "--mode", "test", "--type", "publishable", "--origin"]
    for (const origin of ["shop.example", "ftp://a.example", "https://*", "https://*.a.example", "https://a.example/b"])
      expect((await cli(...publishable, origin)).code, origin).toBe(2)
  })

  it("changes accounts: live access, plan, business type, administrators", async () => {
    const made = (await cli("account", "create", "--business-name", "New")).json
    expect(made.account.live_access).toBe("not_requested")
    const live = (...args: ReadonlyArray<string>) => cli("account", "live-access", made.account.id, ...args)
    expect((await live("approve")).code).toBe(1)
    expect((await live("request")).json.live_access).toBe("pending_review")
    expect((await live("reject")).json.live_access).toBe("rejected")
    expect((await cli("key", "create", "--account", made.account.id, "--mode", "live", "--type", "secret")).code).toBe(
      1,
    )
    await live("request")
    expect((await live("approve")).json.live_access).toBe("approved")
    const key = (await cli("key", "create", "--account", made.account.id, "--mode", "live", "--type", "secret")).json
      .key
    const api = createApi(server().origin, key, "live")
    expect((await api.get("/account")).status).toBe(200)
    expect((await live("suspend")).json.live_access).toBe("suspended")
    // The database notifies the server.
    const refused = await eventually(async () => {
      const answer = await api.get("/account")
      return answer.status === 200 ? undefined : answer
    })
    expect(refusal(refused)).toEqual([403, "live_access_required", null])
    expect((await live("reinstate")).json.live_access).toBe("approved")
    expect((await cli("account", "set-plan", made.account.id, "scale")).json.api_plan).toBe("scale")
    expect((await cli("account", "set-plan", made.account.id, "giant")).code).toBe(2)
    const vertical = await cli("vertical", "set", made.account.id, "waste", "--reason", "They collect waste")
    expect(vertical.json).toMatchObject({ object: "provider", vertical: "waste" })
    const administrator = (await cli("admin", "create", "--name", "Ops")).json.key
    expect(administrator).toMatch(/^adm_/)
    const history = await createApi(server().origin, administrator).get(`/providers/${made.account.id}/history`)
    expect(data(history)[0]).toMatchObject({ administrator: "command line", new_vertical: "waste" })
    expect((await stranger.get("/account")).status).toBe(200)
    const ids = (await cli("account", "list")).json.map(({ id }: { id: string }) => id)
    expect(ids).toContain(made.account.id)
    expect(ids).not.toContain("acct_service")
  })
})
