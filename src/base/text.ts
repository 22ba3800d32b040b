/** Which characters of a text people can see (decision A5). */

/** A visible character: not white space, control, format or other invisible characters, nor Braille's empty pattern. */
const VISIBLE = /[^\p{Cc}\p{Cf}\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]/u

/** Whether a text has a visible character. */
export const isVisible = (text: string): boolean => VISIBLE.test(text)

/** Control characters other than tabs and line ends. */
const CONTROL = /[^\P{Cc}\t\n\r]/u

/** Whether a text has control characters other than tabs and line ends. */
export const hasControls = (text: string): boolean => CONTROL.test(text)
