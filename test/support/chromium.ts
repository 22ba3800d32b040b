/** Starts one Chromium for the whole run. Each test has its own context in it (browser.ts). */
import type { TestProject } from "vitest/node"
import { serveBrowser } from "../../scripts/browser.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The address for workers. */
    chromium: string
  }
}

export default async (project: TestProject) => {
  const server = await serveBrowser()
  project.provide("chromium", server.wsEndpoint())
  return () => server.close()
}
