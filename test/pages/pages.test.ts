/** Tests the common structure of the hosted pages, and the content of each. */
import { createHash } from "node:crypto"
import { describe, expect, it } from "vitest"
import { gallery } from "../../scripts/gallery.ts"
import { DAY_MS } from "../../src/base/time.ts"
import { OUTCOME_UNKNOWN } from "../../src/http/failures.ts"
import { refusedPage } from "../../src/http/page.ts"
import { checkoutPage } from "../../src/pages/checkout.ts"
import { pageHeaders, STYLE_SOURCE } from "../../src/pages/headers.ts"
import { paymentLinkPage } from "../../src/pages/paymentLink.ts"
import { messagePage, pendingPage } from "../../src/pages/says.ts"
import { startPage } from "../../src/pages/start.ts"
import type { CheckoutView, MessageView, PaymentForm, PaymentLinkView, PendingView } from "../../src/pages/views.ts"
import { TEST_METHODS, testMethod } from "../../src/rails/rail/simulator/methods.ts"

const PAGES = [...gallery()]
const NOW = Date.UTC(2027, 2, 3, 9)

/** Input of buyers, and names of merchants. */
const checkoutView = (text: string, form: Partial<PaymentForm> = {}): CheckoutView => ({
  business: text,
  simulated: true,
  now: NOW,
  onTestClock: false,
  offer: {
    plan: text,
    description: text,
    cycle: "monthly",
    priceKobo: 500_000,
    quantity: 1,
    unitKobo: 5_000,
    startsAt: NOW,
    trialEndsAt: null,
    nextChargeAt: NOW + 31 * DAY_MS,
    isEnding: false,
  },
  saves: "default",
  customerName: text,
  expiresAt: NOW + DAY_MS,
  cancelUrl: "https://gym.example/plans?a=1&b=2",
  dueKobo: 500_000,
  alsoCharged: [{ plan: text, amountKobo: 500_000, since: NOW }],
  form: {
    action: "/checkout/token/complete",
    submission: text,
    amountKobo: 1_000_000,
    purpose: "pay",
    chooses: null,
    details: { name: text, email: text, phone: text },
    email: null,
    saved: [],
    chosen: null,
    asksOtp: false,
    takesCards: true,
    errors: [],
    refusal: null,
    ...form,
  },
})
const linkView = (text: string): PaymentLinkView => ({
  ...checkoutView(text),
  customerName: text,
  about: text,
  owed: [{ plan: text, amountKobo: 500_000, since: NOW }],
  consequences: (["retry", "pause", "restrict", "hold", "cancel"] as const).map((what) => ({
    at: NOW,
    what,
    plan: text,
  })),
  halts: [
    { plan: text, what: "pause", since: NOW, ends: "by_paying" },
    { plan: text, what: "pause", since: NOW, ends: { at: null } },
  ],
  upcoming: { plan: text, what: "charge", at: NOW },
  remark: text,
})
const pendingView = (text: string): PendingView => ({
  business: text,
  simulated: true,
  now: NOW,
  onTestClock: false,
  amountKobo: 500_000,
  method: { ...testMethod("pm_test_bank_account")!, bank_name: text, last4: text },
  goOn: null,
  received: null,
  since: NOW,
  returnPath: "/checkout/token/return",
})
const messageView = (text: string): MessageView => ({
  business: text,
  simulated: true,
  tone: "info",
  title: text,
  paragraphs: [text, text],
  action: { label: text, href: "https://gym.example/" },
  requestId: text,
})

const hostileForm = (text: string): Partial<PaymentForm> => ({
  saved: [{ ...testMethod("pm_test_visa")!, id: text, brand: text, last4: text, declinedAt: NOW }],
  chosen: text,
  errors: [
    { field: "name", message: text },
    { field: "payment_method", message: text },
    { field: "card_number", message: text },
  ],
  refusal: text,
})

/** Each page with this text in all its texts. */
const pagesOf = (text: string): ReadonlyArray<string> => [
  checkoutPage(checkoutView(text)),
  checkoutPage(checkoutView(text, hostileForm(text))),
  checkoutPage(checkoutView(text, { ...hostileForm(text), asksOtp: true })),
  paymentLinkPage(linkView(text)),
  pendingPage(pendingView(text)),
  messagePage(messageView(text)),
  startPage({ origin: text, demoKey: text }),
]

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0
const checkout = (form: Partial<PaymentForm> = {}): string => checkoutPage(checkoutView("Gym", form))

describe.each(PAGES)("the page %s", (_, page) => {
  it("is one document of less than 30 KB that loads nothing else", () => {
    expect(Buffer.byteLength(page)).toBeLessThan(30_000)
    expect(count(page, /\ssrc=|<link (?!rel="icon" href="data:,">)|@import|url\(/g)).toBe(0)
  })

  it("has a language, one title, one h1, and landmarks", () => {
    expect(page).toMatch(/^<!doctype html>\n<html lang="en">/)
    expect(page).toMatch(/<title>[^<]+ · [^<]+<\/title>/)
    for (const element of ["h1", "header", "main", "footer"])
      expect([element, count(page, new RegExp(`<${element}[ >]`, "g"))]).toEqual([element, 1])
  })

  it("has each ID once, and labels, descriptions and links refer to existing ones", () => {
    const ids = [...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id!)
    expect(ids.toSorted()).toEqual([...new Set(ids)].toSorted())
    const led = [...page.matchAll(/\s(?:(?:for|aria-describedby|aria-labelledby|form)="|href="#)([^"]+)"/g)]
    for (const id of led.flatMap(([, many]) => many!.split(" "))) expect(ids).toContain(id)
  })

  it("has no inline style or handler, and its policy lists its inline code", () => {
    expect(page).not.toMatch(/<[^>]+\s(style|on[a-z]+)=/i)
    const policy = pageHeaders({})["content-security-policy"]!
    for (const [, kind, text] of page.matchAll(/<(style|script)[^>]*>(.*?)<\/\1>/gs)) {
      const source = `'sha256-${createHash("sha256").update(text!).digest("base64")}'`
      expect(policy).toContain(`${kind}-src ${source}`)
    }
    expect(count(page, /<style>/g)).toBe(1)
  })
})

describe("untrusted input", () => {
  it.each([`"><script>alert(1)</script>`, `' onfocus='alert(1)`, "</title><img src=x>", "&lt;b&gt;"])(
    "stays text: %s",
    (text) => {
      const harmless = pagesOf("x")
      pagesOf(text).forEach((page, index) => {
        expect(page).not.toContain(text)
        // The same elements with the same attributes as with a harmless text.
        const shape = (markup: string) =>
          [...markup.matchAll(/<\/?[a-z][a-z0-9]*|\s[a-z-]+="/g)].map(([found]) => found)
        const title = /<title>.*?<\/title>/s
        expect(shape(page.replace(title, ""))).toEqual(shape(harmless[index]!.replace(title, "")))
      })
    },
  )

  it.each(["javascript:alert(1)", "data:text/html,x", "//evil.example"])("is not accepted as a link: %s", (url) => {
    const view = checkoutView("Gym")
    expect(() => checkoutPage({ ...view, cancelUrl: url })).toThrow("no address")
    expect(() => checkoutPage(checkoutView("Gym", { action: url }))).toThrow("no address")
    expect(() => pendingPage({ ...pendingView("Gym"), returnPath: url })).toThrow("no address")
    expect(() => messagePage({ ...messageView("Gym"), action: { label: "Go", href: url } })).toThrow("no address")
  })
})

describe("the headers", () => {
  it("allow a page's own script, and its form to end at the given origins", () => {
    const headers = pageHeaders({ formActions: ["https://gym.example", "http://127.0.0.1:3000"] })
    expect(headers).toEqual({
      "content-security-policy": expect.stringMatching(
        /^default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'; img-src data:; connect-src 'self'; form-action 'self' https:\/\/gym\.example http:\/\/127\.0\.0\.1:3000; base-uri 'none'; frame-ancestors 'none'$/,
      ),
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "cross-origin-opener-policy": "same-origin",
      "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
    })
    expect(headers["content-security-policy"]).toContain(STYLE_SOURCE)
  })

  it.each(["https://gym.example/", "https://gym.example; script-src *", "*", "'unsafe-inline'", "null"])(
    "do not accept %s as an origin",
    (origin) => {
      expect(() => pageHeaders({ formActions: [origin] })).toThrow("no origin")
    },
  )
})

describe("the form", () => {
  it("posts the shown values to the given address", () => {
    const page = checkout({ submission: "s1" })
    expect(page).toContain('<form id="payment" method="post" action="/checkout/token/complete" novalidate>')
    expect(page).toContain('<input type="hidden" name="submission" value="s1">')
    expect(page).toContain('<input type="hidden" name="amount" value="1000000">')
    for (const field of ["name", "email", "phone", "card_number", "card_expiry", "card_cvc"])
      expect(count(page, new RegExp(`<input id="${field}" name="${field}"`, "g"))).toBe(1)
    for (const completes of ["name", "email", "tel", "cc-number", "cc-exp", "cc-csc"])
      expect(page).toContain(`autocomplete="${completes}"`)
  })

  it("shows the action on its button", () => {
    const button = (form: Partial<PaymentForm>) => /<button class="button"[^>]*>([^<]*)</.exec(checkout(form))![1]
    expect(button({})).toBe("Pay ₦10,000.00")
    expect(button({ purpose: "start_trial", amountKobo: 0 })).toBe("Start free trial")
    expect(button({ purpose: "save", amountKobo: 0 })).toBe("Save payment method")
  })

  it("asks an existing buyer nothing, and only for the code if the bank needs one", () => {
    expect(checkout({ details: null })).not.toContain('name="email"')
    const page = checkout({ asksOtp: true, chosen: "pm_test_requires_otp" })
    expect(page).toContain('<input type="hidden" name="payment_method" value="pm_test_requires_otp">')
    for (const field of ["name", "email", "phone"])
      expect(page).toContain(`<input type="hidden" name="${field}" value="Gym">`)
    expect(page).toContain("Your bank asks for a one-time code")
    expect(page).toContain('autocomplete="one-time-code"')
    expect(count(page, /<input id=/g)).toBe(1)
    expect(page).toContain('href="/checkout/token"')
  })

  it("offers the saved methods and another card", () => {
    const visa = { ...testMethod("pm_test_visa")!, declinedAt: null }
    const page = checkout({ saved: [visa], chosen: visa.id })
    expect(page).toMatch(/id="payment_method" value="pm_test_visa" checked/)
    expect(page).toMatch(/id="another_card" name="payment_method" value="">/)
    expect(page).toContain("Visa •••• 1111")
    const declined = checkout({ saved: [{ ...visa, declinedAt: NOW }] })
    expect(declined).toContain("<small>expires 12/2034, declined on 3 March 2027</small>")
    expect(checkout({ saved: [visa] })).toMatch(/id="another_card" name="payment_method" value="" checked>/)
  })

  it("offers every test method in the sandbox, and none elsewhere", () => {
    const page = checkout()
    for (const id of TEST_METHODS.keys()) expect(page).toContain(`<option>${id}</option>`)
    expect(page).toContain('data-card="4242 4242 4242 4242"')
    expect(page).toContain("Sandbox: no money moves.")
    const live = checkoutPage({ ...checkoutView("Gym", { takesCards: false }), simulated: false })
    expect(live).not.toMatch(/<option|data-card=|Sandbox|name="card_/)
    expect(live).not.toMatch(/card_number|card_expiry|card_cvc/)
    expect(live).toContain("at the payment company’s own page")
  })

  it("shows errors at the top and at the field", () => {
    const page = checkout({
      errors: [
        { field: "email", message: "Write your e-mail address." },
        { field: "payment_method", message: "Choose one." },
      ],
      refusal: "Your bank refused the card.",
    })
    expect(page).toContain("<title>Error: Subscribe to Gym · Gym</title>")
    expect(page).toMatch(/role="alert" tabindex="-1">\s*<h2>Your bank refused the card\.<\/h2>/)
    expect(page).toContain('<a href="#email">Write your e-mail address.</a>')
    expect(page).toContain('<a href="#test_method">Choose one.</a>')
    expect(page).toMatch(/<input id="email"[^>]*aria-invalid="true" aria-describedby="email-hint email-error"/)
    expect(page).toContain('id="email-error"')
    expect(checkout()).not.toMatch(/role="alert" |<[^>]+aria-invalid|Error: /)
  })
})

describe("the other pages", () => {
  it("a checkout shows its expiry, and counts down only if time passes", () => {
    expect(checkout()).toContain(`Open until 4 March 2027, 10:00<span data-left="${DAY_MS}"`)
    expect(checkoutPage({ ...checkoutView("Gym"), onTestClock: true })).not.toContain("data-left=")
  })

  it("a payment link shows the amount due and the other next steps", () => {
    const page = paymentLinkPage(linkView("Gym"))
    for (const sentence of [
      "₦5,000.00 to pay",
      "not paid since 3 March 2027",
      "If you do nothing",
      "Deliveries of Gym are held",
    ])
      expect(page).toContain(sentence)
    expect(page).not.toContain("The next charge")
    const nothing = paymentLinkPage({ ...linkView("Gym"), owed: [], consequences: [], halts: [] })
    expect(nothing).toContain("Nothing to pay")
    expect(nothing).toContain("Nothing is owed for Gym. The next charge for Gym comes on 3 March 2027.")
    expect(nothing).not.toMatch(/If you do nothing|paused/)
  })

  it("a pending page refreshes, with scripts and without", () => {
    const page = pendingPage(pendingView("Gym"))
    expect(page).toContain('<noscript><meta http-equiv="refresh" content="5"></noscript>')
    expect(page).toContain('data-look="/checkout/token/return?look"')
    expect(page).toContain('<a class="link" href="/checkout/token/return?look">Look again</a>')
    expect(page).not.toContain("<form")
  })

  it("the start page shows a key only if it gets one", () => {
    expect(startPage({ origin: "http://127.0.0.1:3000", demoKey: "sk_1" })).toContain("Bearer sk_1")
    expect(startPage({ origin: "http://127.0.0.1:3000", demoKey: null })).not.toContain("curl")
  })
})

it("a buyer who may have paid is sent back to the page, without the fields for programs", () => {
  const shown = refusedPage({
    refusal: OUTCOME_UNKNOWN,
    requestId: "req_1",
    headers: { accept: "text/html" },
    path: "/checkout/secret/complete",
  })
  const text = Buffer.from(shown!.body).toString()
  expect(shown!.status).toBe(503)
  expect(text).toContain("We do not know yet whether this was done")
  expect(text).toContain("you are not charged twice")
  expect(text).toContain('href="/checkout/secret"')
  expect(text).not.toContain("Idempotency-Key")
})
