/** Tests the common structure of the dashboard's pages in all their states. */
import { describe, expect, it } from "vitest"
import { dashboardGallery } from "../../scripts/dashboardGallery.ts"

const PAGES = [...dashboardGallery()]

const matches = (text: string, pattern: RegExp): ReadonlyArray<string> =>
  [...text.matchAll(pattern)].map(([, one]) => one!)

const unique = (values: ReadonlyArray<string>) => expect(values).toEqual([...new Set(values)])

describe.each(PAGES)("%s", (_, page) => {
  it("is one small document with a title, a heading and a language", () => {
    expect(Buffer.byteLength(page)).toBeLessThanOrEqual(60_000)
    expect(page.startsWith('<!doctype html>\n<html lang="en">')).toBe(true)
    const [heading, ...others] = matches(page, /<h1>(.*?)<\/h1>/g)
    expect(others).toEqual([])
    expect(matches(page, /<title>(.*?) · /g)).toEqual([heading])
    expect(matches(page, /<(main) /g)).toHaveLength(1)
  })

  it("has no inline style or script, and no address of another host", () => {
    expect(page).not.toMatch(/<style| style=| on[a-z]+="|<script(?! src="\/dashboard\/assets\/)/)
    for (const link of matches(page, /(?:href|src|action)="([^"]*)"/g))
      expect(link).toMatch(/^(?:\/(?!\/)|#|https:\/\/billing\.example\/)/)
  })

  it("has IDs that occur once, and a label for each control with a name of its own", () => {
    unique(matches(page, / id="([^"]+)"/g))
    unique(matches(page, /<label (?:class="[^"]*" )?for="[^"]+">(.*?)<\/label>/g))
    const labelled = new Set(matches(page, /<label [^>]*for="([^"]+)"/g))
    for (const id of matches(page, /<(?:input|select|textarea) id="([^"]+)"/g)) expect(labelled).toContain(id)
  })

  it("has the secret in each form that changes something", () => {
    const forms = matches(page, /<form method="post"(.*?)<\/form>/gs)
    for (const form of forms) expect(form).toContain('name="form_token"')
  })
})
