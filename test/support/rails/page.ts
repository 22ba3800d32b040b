/** Renders the rail's own page for a browser. */
import type { Transaction } from "./transaction.ts"

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

const whole = (title: string, body: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
  `<title>${title}</title><link rel="icon" href="data:,"><main><h1>${title}</h1>${body}</main></html>`

/** The requested payment, and a button for each action of a buyer. */
export const payPage = ({ askedKobo, currency, email, reference }: Transaction): string =>
  whole(
    "The rail's page",
    `<p>${currency} ${(askedKobo / 100).toFixed(2)} for ${escaped(email)}, reference ${escaped(reference)}</p>` +
      `<form method="post"><button name="act" value="pay">Pay</button> ` +
      `<button name="act" value="decline">Decline</button> <button name="act" value="leave">Leave</button></form>`,
  )

/** The page allows no more actions. */
export const overPage = (returnUrl: string | null): string =>
  whole("This payment is over", returnUrl === null ? "" : `<p><a href="${escaped(returnUrl)}">Back to the shop</a></p>`)

export const noPage = (): string => whole("No such page", "")
