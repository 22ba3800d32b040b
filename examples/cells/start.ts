/**
 * Two cells and a proxy on this machine, for trying (docs/scaling.md): `npm run example:cells`. Everything listens on 127.0.0.1
 * and lies in one temporary folder, which is gone when this ends.
 */
import type { ChildProcess } from "node:child_process"
import { randomBytes } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDataDir } from "../../scripts/dataDir.ts"
import { findHaproxy, HAPROXY_MISSING, startHaproxy } from "../../scripts/haproxy.ts"
import { type Server, startServer } from "../../scripts/server.ts"
import { runCli } from "./cli.ts"

const PROXY_PORT = 8080
const ADMIN_PORT = 8081
const CELLS = [
  { cell: "00", port: 3001 },
  { cell: "01", port: 3002 },
]
const origin = `http://127.0.0.1:${PROXY_PORT}`

const folder = temporaryDataDir("cells")
const keyFile = join(folder.path, "encryption-key")
writeFileSync(keyFile, randomBytes(32).toString("base64"), { mode: 0o600 })
/** What a process of a cell is started with: its own data, and the key that all cells have in common. */
const settingsOf = ({ cell }: { readonly cell: string }) => ({
  CELL: cell,
  DATA_DIR: join(folder.path, cell),
  ENCRYPTION_KEY_FILE: keyFile,
})
const say = (text: string) => process.stdout.write(`${text}\n`)

const servers: Array<Server> = []
let proxy: ChildProcess | undefined
const finish = async (code: number) => {
  proxy?.kill("SIGTERM")
  await Promise.all(servers.map((server) => server.stop()))
  folder.remove()
  process.exit(code)
}
let ending: Promise<void> | undefined
/** A terminal's interrupt comes twice: from itself, and from npm. */
const end = (code: number): Promise<void> => {
  ending ??= finish(code)
  return ending
}
process.on("SIGINT", () => end(0))
process.on("SIGTERM", () => end(0))

const start = async () => {
  const haproxy = findHaproxy()
  const publicUrl = haproxy === undefined ? {} : { PUBLIC_URL: origin, TRUST_PROXY: "127.0.0.0/8" }
  for (const one of CELLS) {
    say(`Starting the cell ${one.cell} …`)
    const settings = { ...settingsOf(one), PORT: String(one.port), ...publicUrl }
    servers.push(await startServer(settings))
  }
  const databases = CELLS.map((one) => runCli(settingsOf(one), "db", "url").url as string)
  for (const one of CELLS.slice(1)) runCli(settingsOf(one), "cell", "join", "--from", databases[0]!)

  const cells = CELLS.map(({ cell, port }, at) => ({ cell, database: databases[at], servers: [`127.0.0.1:${port}`] }))
  const cellsFile = join(folder.path, "cells.json")
  writeFileSync(cellsFile, JSON.stringify(cells, null, 2), { mode: 0o600 })
  const proxied = ["--cells", cellsFile, "--bind", `127.0.0.1:${PROXY_PORT}`, "--admin", `127.0.0.1:${ADMIN_PORT}`]
  const text = (...args: ReadonlyArray<string>): string => runCli(settingsOf(CELLS[0]!), "cell", "haproxy", ...args)
  const config = join(folder.path, "haproxy.cfg")
  writeFileSync(join(folder.path, "cells.map"), text(...proxied, "--map"))
  writeFileSync(config, text(...proxied, "--folder", folder.path))
  if (haproxy !== undefined) proxy = await startHaproxy(haproxy, config)

  const { account, keys } = runCli(settingsOf(CELLS[0]!), "account", "create", "--business-name", "Moves")
  const environment = (of: (typeof CELLS)[number]) =>
    Object.entries(settingsOf(of))
      .map(([name, value]) => `${name}=${value}`)
      .join(" ")
  const [first, second] = CELLS.map(({ port }) => `http://127.0.0.1:${port}`)
  const told =
    haproxy === undefined
      ? {
          proxy: HAPROXY_MISSING,
          request: "A request to the cell that the key names:",
          origin: first,
          move: `The account moves to the other cell; the same request to ${second} is answered from then on:`,
          option: "",
        }
      : {
          proxy: origin,
          request: "A request, which the proxy sends to the cell that the key names:",
          origin,
          move: "The account moves to the other cell; the same request then goes there:",
          option: ` --proxy 127.0.0.1:${ADMIN_PORT}`,
        }
  say(`
Proxy:  ${told.proxy}
${CELLS.map(({ cell, port }) => `Cell ${cell}: http://127.0.0.1:${port}`).join("\n")}
Cells:  ${cellsFile}

${told.request}
  curl ${told.origin}/sandbox/v1/customers -H 'Authorization: Bearer ${keys.sk_test}' \\
    -H 'Content-Type: application/json' -d '{"name": "Ada Obi", "email": "ada@example.com"}'

${told.move}
  ${environment(CELLS[0]!)} \\
    npm run --silent cli -- account move ${account.id} --to '${databases[1]}'${told.option}

Ctrl-C ends everything.`)
}
start().catch((error: Error) => {
  process.stderr.write(`${error.message}\n`)
  return end(1)
})
