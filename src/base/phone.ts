/** Phone numbers: E.164 where programs speak, and as people in Nigeria write them (decision C5). */
import { parsePhoneNumberFromString } from "libphonenumber-js/max"

/** The form of a number in E.164; whether there can be such a number, the numbering plans of the countries say. */
export const E164 = /^\+[1-9]\d{6,14}$/

/** The number that a text means, in E.164 form, if there can be such a number. Local forms are Nigerian. */
const validNumber = (text: string): string | undefined => {
  const parsed = parsePhoneNumberFromString(text, "NG")
  return parsed?.isValid() === true && E164.test(parsed.number) ? parsed.number : undefined
}

/**
 * A phone number in E.164 form; undefined where a text is none. An international number begins with +, with 00 or, as dialled from
 * Nigeria, with 009: what is a valid number by both is refused as ambiguous.
 */
export const parsePhone = (text: string): string | undefined => {
  const typed = text.trim()
  if (!typed.startsWith("00")) return validNumber(typed)
  const readings = [typed.replace("00", "+"), ...(typed.startsWith("009") ? [typed.replace("009", "+")] : [])]
  const [only, ...others] = readings.map(validNumber).filter((one) => one !== undefined)
  return others.length === 0 ? only : undefined
}

/** Whether a text is a number that can exist, in E.164 form and in no other. */
export const isPhone = (text: string): boolean => E164.test(text) && validNumber(text) === text
