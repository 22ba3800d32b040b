/** Fills in the form of a hosted page, as buyers do. */
import type { Page } from "playwright-core"

/** The sandbox's cards, by the labels of their buttons. */
export const PAYS = "4242 4242 4242 4242"
export const DECLINED = "insufficient funds"
export const ASKS_CODE = "asks for a code"

/** Picks one of the sandbox's cards. */
export const pick = (page: Page, card: string): Promise<void> => page.getByRole("button", { name: card }).click()

/** Picks another of the sandbox's payment methods. */
export const select = async (page: Page, method: string): Promise<void> => {
  await page.getByText("Other test payment methods").click()
  await page.getByLabel("Pay with").selectOption(method)
}

/** Types a card as it is printed, digit by digit. */
export const typeCard = async (page: Page, number: string): Promise<void> => {
  await page.getByLabel("Card number").pressSequentially(number)
  await page.getByLabel("Expiry").pressSequentially("1234")
  await page.getByLabel("CVC").pressSequentially("123")
}

/** Fills the card in if no script formats it. */
export const fillCard = async (page: Page, number: string): Promise<void> => {
  await page.getByLabel("Card number").fill(number)
  await page.getByLabel("Expiry").fill("12/34")
  await page.getByLabel("CVC").fill("123")
}

/** Presses the page's main button. The caller waits for the result. */
export const pay = (page: Page, name = "Pay ₦5,000.00"): Promise<void> =>
  page.getByRole("button", { name }).click({ noWaitAfter: true })
