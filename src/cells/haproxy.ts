/**
 * Writes the configuration of HAProxy (2.6 or newer) in front of cells. A request goes to the cell named in its key or link
 * (decision O2). A map overrides this for accounts that have moved.
 */
import { TAG_LENGTH } from "../base/cell.ts"
import type { CellEntry } from "./cellsFile.ts"
import { MAP_NAME } from "./proxy.ts"

export interface ProxyOptions {
  readonly cells: ReadonlyArray<Pick<CellEntry, "cell" | "servers">>
  /** The proxy's own address, `HOST:PORT` or `:PORT`. */
  readonly bind: string
  /** The address of its runtime API: `HOST:PORT`, or the path of a socket. */
  readonly admin: string
  /** The folder of the map. */
  readonly folder: string
}

const backend = ({ cell, servers }: Pick<CellEntry, "cell" | "servers">): string =>
  [
    `backend cell_${cell}`,
    "  option httpchk GET /readyz",
    "  http-check expect status 200",
    ...servers.map((address, n) => `  server ${cell}_${n + 1} ${address} check inter 1s fall 2 rise 1`),
  ].join("\n")

/** Returns the configuration as text. Requests that name no cell, or an unknown one, go to the first cell. */
export const haproxyConfig = ({ cells, bind, admin, folder }: ProxyOptions): string => {
  const map = `${folder.replace(/\/+$/, "")}/${MAP_NAME}`
  const address = admin.startsWith("/") ? admin : `ipv4@${admin}`
  return `# Written by \`npm run --silent cli -- cell haproxy\`: see docs/scaling.md.
global
  maxconn 8000
  # The runtime API: \`account move --proxy\` uses it to set the new cell of an account.
  stats socket ${address} ${admin.startsWith("/") ? "mode 600 " : ""}level admin

defaults
  mode http
  maxconn 8000
  option forwardfor
  option http-keep-alive
  # A request whose connection failed goes to another process of the cell.
  retry-on conn-failure
  retries 2
  option redispatch
  timeout connect 2s
  timeout client 75s
  timeout server 75s
  timeout http-request 30s
  timeout check 2s

frontend billing
  bind ${bind}
  http-request set-header X-Forwarded-Proto https if { ssl_fc }
  http-request set-header X-Forwarded-Proto http if !{ ssl_fc }

  # A request names a link's token, an account, a cell, a session or a key. The first one found, in this order, selects the cell.
  acl is_link path_reg ^/(checkout|pay|save)/[0-9A-Za-z]{2}[\\w-]{51}(/|$)
  acl is_plan path_reg ^(/sandbox)?(/v1)?/public/save-to-buy/p/[0-9A-Za-z]{2}[\\w-]{51}(/|$)
  acl is_invoice path_beg /invoices/
  http-request set-var(txn.token) path,field(3,/) if is_link
  http-request set-var(txn.token) path,regsub(^.*/p/,),field(1,/) if is_plan
  http-request set-var(txn.token) url_param(signature) if is_invoice
  http-request set-var(txn.account) path,regsub(^.*/acct_,acct_),field(1,/) if { path_sub /acct_ }
  acl is_dashboard path_beg /dashboard
  acl is_dashboard_link path_reg ^/dashboard/(invitations|links)/[0-9A-Za-z]{2}[\\w-]{43}(/|$)
  # A session of the dashboard. On the pages that sign in: the browser, which may have a session of another cell.
  acl is_sign_in path_beg /dashboard/sign-in /dashboard/sign-up
  http-request set-var(txn.cookie) req.cook(__Host-visitor) if is_sign_in
  http-request set-var(txn.cookie) req.cook(visitor) if is_sign_in !{ var(txn.cookie) -m found }
  http-request set-var(txn.cookie) req.cook(__Host-session) if is_dashboard !{ var(txn.cookie) -m found }
  http-request set-var(txn.cookie) req.cook(session) if is_dashboard !{ var(txn.cookie) -m found }
  http-request set-var(txn.cookie) req.cook(__Host-visitor) if is_dashboard !{ var(txn.cookie) -m found }
  http-request set-var(txn.cookie) req.cook(visitor) if is_dashboard !{ var(txn.cookie) -m found }
  http-request set-var(txn.key) http_auth_bearer if { req.hdr(Authorization) -m found }

  # Accounts that have moved: the map names their cell.
  http-request set-var(txn.cell) var(txn.token),bytes(2,${TAG_LENGTH}),map_str(${map}) if { var(txn.token) -m found }
  http-request set-var(txn.cell) var(txn.account),map_str(${map}) if { var(txn.account) -m found } !{ var(txn.cell) -m found }
  http-request set-var(txn.cell) var(txn.key),sha2(256),hex,map_str(${map}) if { var(txn.key) -m found } !{ var(txn.cell) -m found }
  # All others: the cell named in the token, the parameter or the key.
  http-request set-var(txn.cell) var(txn.token),bytes(0,2) if { var(txn.token) -m found } !{ var(txn.cell) -m found }
  http-request set-var(txn.cell) url_param(cell),bytes(0,2) if { url_param(cell) -m found } !{ var(txn.cell) -m found }
  http-request set-var(txn.cell) path,field(4,/),bytes(0,2) if is_dashboard_link
  http-request set-var(txn.cell) var(txn.cookie),bytes(0,2) if { var(txn.cookie) -m found } !{ var(txn.cell) -m found }
  http-request set-var(txn.cell) var(txn.key),field(-1,_),bytes(0,2) if { var(txn.key) -m found } !{ var(txn.cell) -m found }

  use_backend cell_%[var(txn.cell)] if { var(txn.cell) -m reg ^(${cells.map(({ cell }) => cell).join("|")})$ }
  default_backend cell_${cells[0]!.cell}

${cells.map(backend).join("\n\n")}
`
}
