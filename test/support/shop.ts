/** A merchant's own pages, on this machine: buyers come from them, and return to them. */
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

/** Call at the top of a test file. `secure`: https as in live, with a certificate that browsers must accept. */
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
    /** The address to which a session returns its buyers. */
    urls: () => ({ success_url: `${origin()}/welcome`, cancel_url: `${origin()}/plans` }),
    /** The content at a path. */
    put: (path: string, body: string) => void pages.set(path, body),
    /** Waits until the buyer has arrived. The shop knows nothing of the page before. */
    landed: async (page: Page, session: string): Promise<void> => {
      const arrived = `/welcome?session_id=${session}`
      await page.waitForURL(origin() + arrived)
      expect(await page.evaluate("document.referrer")).toBe("")
      const matching = visits.filter(({ url }) => url === arrived)
      expect(matching.length).toBeGreaterThan(0)
      expect(matching.map(({ referer }) => referer)).toEqual(matching.map(() => undefined))
    },
    /** The number of times a buyer returned from that session. */
    arrivals: (session: string): number => visits.filter(({ url }) => url.endsWith(`session_id=${session}`)).length,
  }
}
