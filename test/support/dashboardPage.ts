/** What every page of the dashboard must be like, as a document. */
import { expect } from "vitest"

const matches = (text: string, pattern: RegExp): ReadonlyArray<string> =>
  [...text.matchAll(pattern)].map(([, one]) => one!)

const unique = (values: ReadonlyArray<string>) => expect(values).toEqual([...new Set(values)])

/** One small document with a title, a heading and a language. */
const checkDocument = (page: string): void => {
  expect(Buffer.byteLength(page)).toBeLessThanOrEqual(60_000)
  expect(page.startsWith('<!doctype html>\n<html lang="en">')).toBe(true)
  const [heading, ...others] = matches(page, /<h1>(.*?)<\/h1>/g)
  expect(others).toEqual([])
  expect(matches(page, /<title>(.*?) · /g)).toEqual([heading])
  expect(matches(page, /<(main) /g)).toHaveLength(1)
}

/** No inline style or script, and no address of another host. */
const checkAddresses = (page: string): void => {
  expect(page).not.toMatch(/<[^>]* style=|<style|<[^>]* on[a-z]+="|<script(?! src="\/dashboard\/assets\/)/)
  for (const link of matches(page, /(?:href|src|action)="([^"]*)"/g))
    expect(link).toMatch(/^(?:\/(?!\/)|#|https:\/\/billing\.example\/)/)
}

/** IDs that occur once, and a label for each control with a name of its own. */
const checkControls = (page: string): void => {
  unique(matches(page, / id="([^"]+)"/g))
  unique(matches(page, /<label (?:class="[^"]*" )?for="[^"]+">(.*?)<\/label>/g))
  const labelled = new Set(matches(page, /<label [^>]*for="([^"]+)"/g))
  for (const id of matches(page, /<(?:input|select|textarea) id="([^"]+)"/g)) expect(labelled).toContain(id)
}

/** The secret in each form that changes something. */
const checkForms = (page: string): void => {
  for (const form of matches(page, /<form method="post"(.*?)<\/form>/gs)) expect(form).toContain('name="form_token"')
}

export const checkPage = (page: string): void => {
  checkDocument(page)
  checkAddresses(page)
  checkControls(page)
  checkForms(page)
}
