/** A merchant's own pages, on this machine: where buyers come from, and where they are sent on to. */
import { createServer, type RequestListener } from "node:http"
import { createServer as createSecureServer } from "node:https"
import type { AddressInfo } from "node:net"
import type { Page } from "playwright-core"
import { afterAll, beforeAll, expect } from "vitest"
import { CERTIFICATE, CERTIFICATE_KEY } from "./certificate.ts"

export interface Visit {
  readonly url: string
  readonly referer: string | undefined
}

/** Call at the top of a test file. `secure`: by https, as in live, with a certificate that browsers have to be told to take. */
export const useShop = (secure = false) => {
  const visits: Array<Visit> = []
  const pages = new Map<string, string>()
  const serve: RequestListener = ({ url = "/", headers }, response) => {
    visits.push({ url, referer: headers.referer })
    const body = pages.get(url) ?? "<h1>The shop</h1>"
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" })
    response.end(`<!doctype html><html lang="en"><title>The shop</title><link rel="icon" href="data:,">${body}`)
  }
  const server = secure ? createSecureServer({ cert: CERTIFICATE, key: CERTIFICATE_KEY }, serve) : createServer(serve)
  beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)))
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = () => `${secure ? "https" : "http"}://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin,
    /** Where a session sends its buyers. */
    urls: () => ({ success_url: `${origin()}/welcome`, cancel_url: `${origin()}/plans` }),
    /** What stands at a path. */
    put: (path: string, body: string) => void pages.set(path, body),
    /** Waits until the buyer has landed there; nothing of the page before is known to the shop. */
    landed: async (page: Page, session: string): Promise<void> => {
      const arrived = `/welcome?session_id=${session}`
      await page.waitForURL(origin() + arrived)
      expect(await page.evaluate("document.referrer")).toBe("")
      const its = visits.filter(({ url }) => url === arrived)
      expect(its.length).toBeGreaterThan(0)
      expect(its.map(({ referer }) => referer)).toEqual(its.map(() => undefined))
    },
    /** How often a buyer was sent on from that session. */
    arrivals: (session: string): number => visits.filter(({ url }) => url.endsWith(`session_id=${session}`)).length,
  }
}
