/** Phone numbers: E.164 between programs, and the forms that people in Nigeria write (decision C5). */
import { parsePhoneNumberFromString } from "libphonenumber-js/max"

/** The shape of a number in E.164. The countries' numbering plans decide whether such a number can exist. */
export const E164 = /^\+[1-9]\d{6,14}$/

/** The number in a text, in E.164 form, if such a number can exist. Local forms are Nigerian. */
const validNumber = (text: string): string | undefined => {
  const parsed = parsePhoneNumberFromString(text, "NG")
  return parsed?.isValid() === true && E164.test(parsed.number) ? parsed.number : undefined
}

/**
 * Parses a phone number into E.164 form; returns undefined if it is none. An international number begins with +, with 00 or, as dialled
 * from Nigeria, with 009. A number that is valid by both prefixes is refused as ambiguous.
 */
export const parsePhone = (text: string): string | undefined => {
  const typed = text.trim()
  if (!typed.startsWith("00")) return validNumber(typed)
  const readings = [typed.replace("00", "+"), ...(typed.startsWith("009") ? [typed.replace("009", "+")] : [])]
  const [only, ...others] = readings.map(validNumber).filter((one) => one !== undefined)
  return others.length === 0 ? only : undefined
}

/** Whether a text is a possible number in E.164 form. */
export const isPhone = (text: string): boolean => E164.test(text) && validNumber(text) === text
