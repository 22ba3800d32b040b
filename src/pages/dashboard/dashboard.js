// @ts-check
/** Improves the dashboard in browsers that run scripts. Every page also works without it, except passkeys, which need it. */

/** @type {(selector: string) => HTMLElement | null} */
const one = (selector) => document.querySelector(selector)

/** A button works once: a second click of an impatient person sends nothing. A page from the browser's cache works again. */
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target)
  if (form.method !== "post") return
  if (form.getAttribute("aria-busy") === "true") return event.preventDefault()
  form.setAttribute("aria-busy", "true")
})
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[aria-busy]")) form.removeAttribute("aria-busy")
})

one("[role=alert][tabindex]")?.focus()

/** A wide picture of a machine shows the present state first, or the one with the most objects. It stays where it was scrolled to. */
const center = (/** @type {Element} */ picture) => {
  const counted = [...picture.querySelectorAll("[data-state][data-count]")]
  const most = counted.sort((a, b) => Number(b.getAttribute("data-count")) - Number(a.getAttribute("data-count")))
  const shown =
    picture.querySelector("[aria-current]") ?? most.find((state) => Number(state.getAttribute("data-count")) > 0)
  if (shown === null || shown === undefined) return
  const [own, of] = [shown.getBoundingClientRect(), picture.getBoundingClientRect()]
  picture.scrollBy(own.x + own.width / 2 - of.x - of.width / 2, own.y + own.height / 2 - of.y - of.height / 2)
}
for (const picture of document.querySelectorAll(".picture")) center(picture)
for (const part of document.querySelectorAll(".followed")) {
  let at = {
    left: part.querySelector(".picture")?.scrollLeft ?? 0,
    top: part.querySelector(".picture")?.scrollTop ?? 0,
  }
  part.addEventListener(
    "scroll",
    ({ target }) => {
      const { scrollLeft: left, scrollTop: top, className } = /** @type {Element} */ (target)
      if (className === "picture") at = { left, top }
    },
    true,
  )
  new MutationObserver(() => part.querySelector(".picture")?.scrollTo(at)).observe(part, { childList: true })
}

/** Copies a secret that is shown once. */
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.removeAttribute("hidden")
  button.addEventListener("click", async () => {
    const text = one(/** @type {HTMLElement} */ (button).dataset.copy ?? "")?.textContent ?? ""
    await navigator.clipboard.writeText(text)
    button.textContent = "Copied"
  })
}

/** @type {(path: string, body: object) => Promise<any>} */
const ask = async (path, body) => {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify(body),
  })
  const content = await answer.json()
  if (!answer.ok) throw new Error(content.error?.message ?? "This did not work.")
  return content.data
}

/** Passkeys: the form names the step (`register` or `sign-in`), and the server checks the answer. */
for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-passkey]"))) {
  if (typeof PublicKeyCredential !== "function" || !("parseCreationOptionsFromJSON" in PublicKeyCredential)) continue
  form.hidden = false
  form.addEventListener("submit", async (event) => {
    event.preventDefault()
    const fields = Object.fromEntries(new FormData(form))
    const says = /** @type {HTMLElement} */ (form.querySelector("[role=status]"))
    try {
      const isNew = form.dataset.passkey === "register"
      const options = await ask(`${form.action}/options`, fields)
      const credential = isNew
        ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
        : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) })
      const { to } = await ask(form.action, { ...fields, credential: /** @type {any} */ (credential).toJSON() })
      location.assign(to)
    } catch (error) {
      form.removeAttribute("aria-busy")
      says.textContent = error instanceof Error ? error.message : "This did not work."
    }
  })
}
