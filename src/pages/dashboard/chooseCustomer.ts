/** Renders the search for a customer before an action for one. */
import { type Html, html } from "../html.ts"
import { fieldRow, hiddenField, NOTHING_WRONG } from "./fields.ts"
import { empty, pageHead, section, table } from "./parts.ts"

interface Found {
  readonly name: string
  readonly email: string | null
  readonly phone: string | null
  /** The action for this customer. */
  readonly href: string
}

export interface ChooseCustomerView {
  readonly title: string
  readonly path: string
  /** What was searched for; empty: nothing yet. */
  readonly typed: string
  /** The other parameters of the address. */
  readonly kept: ReadonlyArray<readonly [string, string]>
  readonly found: ReadonlyArray<Found>
  /** The page that creates a customer; null: the member may not. */
  readonly newCustomer: string | null
}

export const chooseCustomerMain = ({ title, path, typed, kept, found, newCustomer }: ChooseCustomerView): Html => {
  const field = {
    name: "find",
    label: "Customer",
    kind: "text",
    hint: "An e-mail address, a phone number or an ID",
    maxlength: 254,
    isFilter: true,
  } as const
  const create = newCustomer === null ? null : { href: newCustomer, label: "New customer" }
  const none =
    typed === ""
      ? empty("No customers yet", "Create the customer first.", create)
      : empty("Nothing matches", "Check the spelling, or create the customer.", create)
  return html`${pageHead(title, "For which customer?", create === null ? [] : [create])}<form class="filters" action="${path}">${kept.map(
    ([name, value]) => hiddenField(name, value),
  )}${fieldRow(field, new Map([["find", [typed]]]), NOTHING_WRONG)}<button class="plain">Find</button></form>
${
  found.length === 0
    ? none
    : section(
        typed === "" ? "The newest customers" : "Customers that match",
        table(
          "Customers",
          [
            { name: "Name", cell: ({ name, href }: Found) => html`<a href="${href}">${name}</a>` },
            { name: "E-mail", cell: ({ email }) => email ?? "–" },
            { name: "Phone", cell: ({ phone }) => phone ?? "–" },
          ],
          found,
        ),
      )
}`
}
