/** The operator's command line: what it refuses, and how (docs/operating.md). */
import { Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/account/accounts.ts"
import { createKey } from "../../src/key/apiKeys.ts"
import { useDatabase } from "../support/database.ts"
import { runToEnd } from "../support/server.ts"

const database = useDatabase()
const cli = (...args: ReadonlyArray<string>) =>
  runToEnd("src/cli.ts", args, { DATABASE_URL: Redacted.value(database.url()) })

describe.concurrent("the command line", () => {
  it.each([
    [["db", "url", "extra"], "extra"],
    [["account", "show", "acct_1", "acct_2"], "acct_2"],
    [["account", "list", "--grace", "1h"], "--grace"],
    [["account", "create"], "--business-name"],
    [["account", "create", "--business-name", "X", "--email", "nowhere"], "--email"],
    [["account", "create", "--business-name", "X", "--api-plan", "huge"], "--api-plan"],
    [["ledger", "check", "--colour"], "--colour"],
    [["ledger"], "Usage"],
  ] as const)("refuses bad usage with exit code 2: %j", async (args, named) => {
    const { code, output, errors } = await cli(...args, "--json")
    expect([code, output]).toEqual([2, ""])
    expect(errors).toContain(named)
  })

  it("says with exit code 1 what is not there", async () => {
    for (const args of [
      ["journal", "replay", "sub_nowhere"],
      ["account", "show", "acct_nowhere"],
      ["key", "revoke", "key_nowhere"],
    ]) {
      const { code, output, errors } = await cli(...args, "--json")
      expect([code, output, errors.includes(args.at(-1)!)], args.join(" ")).toEqual([1, "", true])
    }
  })

  it("gives a key what its scopes can hold, and no live key without live access", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "Scoped", liveAccess: "approved" }))
    const restricted = ["key", "create", "--account", account.id, "--mode", "test", "--type", "restricted", "--json"]
    expect((await cli(...restricted, "--scope", "usage=write")).code).toBe(2)
    const made = await cli(...restricted, "--scope", "usage=read", "--scope", "plans=write")
    expect([made.code, Object.keys(JSON.parse(made.output))]).toEqual([0, ["id", "key"]])

    const { id } = await database.run(() => createKey({ account_id: account.id, livemode: true }, "secret"))
    expect((await cli("account", "live-access", account.id, "suspend")).code).toBe(0)
    const rolled = await cli("key", "roll", id, "--grace", "0", "--json")
    expect([rolled.code, rolled.output]).toEqual([1, ""])
    expect(rolled.errors).toContain("suspended")
  })
})
