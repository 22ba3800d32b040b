/** One Chromium for the whole run; each test has a context of its own in it (browser.ts). */
import type { TestProject } from "vitest/node"
import { serveBrowser } from "../../scripts/browser.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** Where workers connect to it. */
    chromium: string
  }
}

export default async (project: TestProject) => {
  const server = await serveBrowser()
  project.provide("chromium", server.wsEndpoint())
  return () => server.close()
}
