/** What people can read of a text (decision A5). */

/** A character that shows something: no blank, no control, format or other invisible character, nor Braille's empty pattern. */
const VISIBLE = /[^\p{Cc}\p{Cf}\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]/u

/** Whether a text shows anything at all. */
export const isVisible = (text: string): boolean => VISIBLE.test(text)

/** Control characters other than tab and line ends. */
const CONTROL = /[^\P{Cc}\t\n\r]/u

/** Whether a text has control characters that no text needs: anything but tabs and line ends. */
export const hasControls = (text: string): boolean => CONTROL.test(text)
