// @ts-check
/** Improves pages in browsers that run scripts. Every page also works without it. */

/** After a lost answer, the button works again after this time. */
const BUSY_LIMIT_MS = 30_000
const FIRST_LOOK_MS = 2_000
const LONGEST_WAIT_MS = 10_000
const MINUTE_MS = 60_000

/** @type {(id: string) => HTMLInputElement | null} */
const field = (id) => /** @type {any} */ (document.getElementById(id))
/** @type {(selector: string) => HTMLElement | null} */
const one = (selector) => document.querySelector(selector)
/** @type {(text: string) => string} */
const digits = (text) => text.replace(/\D/g, "")

/** The card fields, on pages that have some. They are found by class: live pages must not contain their names. */
const cardFields = /** @type {ReadonlyArray<HTMLInputElement>} */ ([...document.querySelectorAll(".new-card input")])
const [cardNumber, cardExpiry, cardCode] = cardFields

/**
 * Formats typed digits in their usual shape, and keeps the caret behind the same digit.
 * @type {(input: HTMLInputElement | undefined, shape: (typed: string, erasing: boolean) => string) => void}
 */
const shaped = (input, shape) => {
  input?.addEventListener("input", (event) => {
    const typed = input.value
    const caret = input.selectionStart ?? typed.length
    const erasing = /** @type {InputEvent} */ (event).inputType?.startsWith("delete") ?? false
    const text = shape(typed, erasing)
    if (text === typed) return
    const count = digits(typed.slice(0, caret)).length
    let at = caret === typed.length ? text.length : 0
    if (at === 0) for (let seen = 0; seen < count && at < text.length; at++) seen += digits(text.charAt(at)).length
    input.value = text
    input.setSelectionRange(at, at)
  })
}

/** @type {(typed: string) => string} */
const groups = (typed) =>
  digits(typed)
    .slice(0, 19)
    .replace(/(\d{4})(?=\d)/g, "$1 ")
/** @type {(typed: string, erasing: boolean) => string} */
const monthAndYear = (typed, erasing) => {
  const all = digits(typed.replace(/^(?=\d\/|[2-9])/, "0"))
  const year = all.slice(2, all.startsWith("20", 2) ? 6 : 4)
  return all.length > 2 || (all.length === 2 && !erasing) ? `${all.slice(0, 2)}/${year}` : all
}
shaped(cardNumber, groups)
shaped(cardExpiry, monthAndYear)
shaped(cardCode, (typed) => digits(typed).slice(0, 4))
cardExpiry?.addEventListener("change", () => {
  cardExpiry.value = cardExpiry.value.replace(/^(\d\d)\/\d\d(\d\d)$/, "$1/$2")
})

/** Loads the present page. A reload of a form's response would send the form again. */
const lookAgain = () => location.replace(location.pathname)

const form = one("form")
const button = one("form button[type=submit]")
const label = button?.textContent ?? ""
/** @type {(busy: boolean) => void} */
const show = (busy) => {
  if (button === null) return
  button.textContent = busy ? (button.dataset.busy ?? label) : label
  button.setAttribute("aria-busy", String(busy))
}
form?.addEventListener("submit", (event) => {
  if (button?.getAttribute("aria-busy") === "true") return event.preventDefault()
  show(true)
  setTimeout(show, BUSY_LIMIT_MS, false)
})
addEventListener("pageshow", ({ persisted }) => {
  // A page from the browser's cache may be paid meanwhile.
  if (persisted) lookAgain()
  else show(false)
})

/** Makes a reload of a form's response request the page, and not submit the form again. */
if (location.pathname.endsWith("/complete")) history.replaceState(null, "", location.href)

/** Clears a test method that was selected before. */
const forget = () => {
  const other = field("test_method")
  if (other !== null) other.value = ""
}
form?.addEventListener("input", ({ target }) => {
  if (/^(card_|payment_method)/.test(/** @type {HTMLInputElement} */ (target).name)) forget()
})
for (const card of document.querySelectorAll("button[data-card]"))
  card.addEventListener("click", () => {
    const values = [/** @type {HTMLElement} */ (card).dataset.card ?? "", "12/34", "123"]
    for (const [index, input] of cardFields.entries()) input.value = values[index] ?? ""
    const another = field("another_card")
    if (another !== null) another.checked = true
    forget()
    button?.focus()
  })

/** Counts down from the page's own time: the buyer's clock may be wrong. */
const countdown = one("[data-left]")
const announced = one("[data-announced]")
if (countdown !== null && announced !== null) {
  const end = performance.now() + Number(countdown.dataset.left)
  let before = Number.POSITIVE_INFINITY
  const tick = () => {
    const left = end - performance.now()
    if (left <= 0) {
      clearInterval(timer)
      return lookAgain()
    }
    const minutes = Math.floor(left / MINUTE_MS)
    const long = minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
    countdown.textContent = ` (${minutes < 1 ? `${Math.ceil(left / 1000)} s` : long} left)`
    for (const mark of [1, 5])
      if (left <= mark * MINUTE_MS && before > mark * MINUTE_MS)
        announced.textContent = `Less than ${mark === 1 ? "a minute" : `${mark} minutes`} left to pay.`
    before = left
  }
  const timer = setInterval(tick, 1000)
  tick()
}

/** Polls for the result of a payment, less and less often. */
const pending = one("[data-look]")?.dataset.look
/** @type {(path: string, wait: number) => Promise<void>} */
const look = async (path, wait) => {
  try {
    const answer = await fetch(path, { headers: { accept: "application/json" }, cache: "no-store" })
    const { data } = await answer.json()
    if (data?.redirect_url) return location.replace(data.redirect_url)
    if (data !== undefined && data.status !== "pending") return location.replace(path)
  } catch {}
  setTimeout(look, wait, path, Math.min(wait * 1.25, LONGEST_WAIT_MS))
}
if (pending !== undefined) setTimeout(look, FIRST_LOOK_MS, pending, FIRST_LOOK_MS)

one("[role=alert][tabindex]")?.focus()
