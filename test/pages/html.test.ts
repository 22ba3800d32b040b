/** Tests that a value in a template stays text, in any place, or is refused. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { type Html, html, ownMarkup } from "../../src/pages/html.ts"

/** Attack strings, among random ones. */
const hostile = fc.oneof(
  fc.string(),
  fc.string({ unit: "binary" }),
  fc.constantFrom(
    `"><script>alert(1)</script>`,
    "' onload='x",
    "</title><b>",
    "&lt;",
    "<!--",
    "]]>",
    "`${x}`",
    "\u0000",
  ),
)

/** The text that a browser reads from markup. */
const unescaped = (markup: string): string =>
  markup
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&")

/** A template as the compiler makes it, from pieces generated here. */
const template = (pieces: ReadonlyArray<string>, ...values: Parameters<typeof html>[1][]): Html =>
  html(Object.assign([...pieces], { raw: pieces }) as unknown as TemplateStringsArray, ...values)

describe("values", () => {
  it("in text are unchanged, without a character of markup", () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const [, inside] = /^<p>(.*)<\/p>$/s.exec(html`<p>${text}</p>`.toString())!
        expect(inside).not.toMatch(/[<>"']/)
        expect(unescaped(inside!)).toBe(text)
      }),
    )
  })

  it("in attributes are unchanged, and never end them", () => {
    fc.assert(
      fc.property(hostile, hostile, (one, two) => {
        const [, inside] = /^<input value="(.*)" title="x">$/s.exec(
          html`<input value="${one} ${two}" title="x">`.toString(),
        )!
        expect(inside).not.toMatch(/[<>"']/)
        expect(unescaped(inside!)).toBe(`${one} ${two}`)
      }),
    )
  })

  it("are joined if they are a list, omitted if they are empty, and markup if a template made them", () => {
    const items = ["<", 1, null, undefined, false, ["&", html`<b>${">"}</b>`]]
    expect(html`<p>${items}</p>`.toString()).toBe("<p>&lt;1&amp;<b>&gt;</b></p>")
    expect(html`${ownMarkup("<style></style>")}`.toString()).toBe("<style></style>")
  })

  it("omit an empty attribute, and write a true one without a value", () => {
    const input = (required: boolean, value: string | null | undefined) =>
      html`<input name="x" required="${required}" value="${value}">`.toString()
    expect(input(true, "")).toBe('<input name="x" required value="">')
    expect(input(false, null)).toBe('<input name="x">')
    expect(input(false, undefined)).toBe('<input name="x">')
    expect(html`<p class="a ${null}b">x</p>`.toString()).toBe('<p class="a b">x</p>')
  })

  it("cannot be objects, nor markup in an attribute", () => {
    expect(() => html`<p>${{ toString: () => "<b>" } as never}</p>`).toThrow("no text")
    expect(() => html`<p>${true}</p>`).toThrow("no text")
    expect(() => html`<p title="${html`"`}">x</p>`).toThrow("no text")
    expect(() => html`<p title="${["a"]}">x</p>`).toThrow("no text")
    expect(() => html`<p title="a ${true}">x</p>`).toThrow("no text")
  })
})

describe("places", () => {
  it.each([
    ["a tag's name", ["<", ">"]],
    ["a tag's name, further on", ["<h", ">x"]],
    ["a closing tag", ["</", ">"]],
    ["an attribute's name", ["<p ", '="x">']],
    ["an attribute without quotes", ["<p title=", ">"]],
    ["an attribute in single quotes", ["<p title='", "'>"]],
    ["a comment", ["<!-- ", " -->"]],
    ["a script", ["<script>", "</script>"]],
    ["a script with attributes", ['<script type="module">', "</script>"]],
    ["a script's attributes", ['<script nonce="', '"></script>']],
    ["a style", ["<style>", "</style>"]],
    ["a style, in capitals", ["<STYLE>", "</STYLE>"]],
    ["a script that is not closed", ["<script>", ""]],
    ["an iframe", ["<iframe>", "</iframe>"]],
    ["the doctype", ["<!doctype ", ">"]],
    ["an event's handler", ['<p onclick="', '">']],
    ["a style attribute", ['<p style="', '">']],
    ["a refresh", ['<meta http-equiv="refresh" content="', '">']],
    ["part of an address", ['<a href="/x/', '">']],
    ["an attribute that is not closed", ['<p title="', ""]],
    ["a tag that is not closed", ["<p ", ""]],
  ])("refuses %s", (_, pieces) => {
    expect(() => template(pieces, "x")).toThrow("A template of a page")
  })

  it("refuses inline styles and handlers even without a value", () => {
    expect(() => template(['<p style="color:red">x</p>'])).toThrow("is code")
    expect(() => template(['<p onclick="x()">x</p>'])).toThrow("is code")
  })

  it("refuses a template each time, not only the first", () => {
    const pieces = Object.assign(["<", ">"], { raw: [] }) as unknown as TemplateStringsArray
    for (let i = 0; i < 2; i++) expect(() => html(pieces, "b")).toThrow()
  })

  it("accepts whole documents", () => {
    const page = html`<!doctype html><!-- x --><title>${"<"}</title><svg viewBox="0 0 1 1"><path d="${"M0"}"/></svg><br>`
    expect(page.toString()).toContain('<title>&lt;</title><svg viewBox="0 0 1 1"><path d="M0"/></svg>')
  })
})

describe("addresses", () => {
  const link = (address: string) => html`<a href="${address}">x</a>`.toString()

  it.each(["/", "/docs?a=1&b=2", "#name", "data:,", "https://chidi.example/a?b=c", "http://127.0.0.1:3000/x"])(
    "lead to %s",
    (address) => {
      expect(link(address)).toBe(`<a href="${address.replaceAll("&", "&amp;")}">x</a>`)
    },
  )

  it.each([
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "java\nscript:alert(1)",
    "\u0001javascript:alert(1)",
    "data:text/html,<script>1</script>",
    "vbscript:x",
    "//evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "https:evil.example",
    "https://",
    "https:///",
    "chidi.example",
    "blob:https://x.example/1",
    "",
  ])("do not link to %j", (address) => {
    expect(() => link(address)).toThrow("no address")
    expect(() => html`<form action="${address}"></form>`).toThrow("no address")
  })

  it("never link to anything but the web or this host", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          hostile,
          fc.webUrl(),
          fc.string().map((rest) => `/${rest}`),
        ),
        (address) => {
          let leads: string
          try {
            leads = link(address)
          } catch {
            return
          }
          const url = new URL(unescaped(/href="([^"]*)"/.exec(leads)![1]!), "https://here.example")
          const ours = url.host === "here.example" || /^https?:\/\//i.test(address)
          expect(["http:", "https:"].includes(url.protocol) && ours, address).toBe(true)
        },
      ),
    )
  })
})
