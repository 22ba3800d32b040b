/** Renders a list: its filters, its table and the links to its pages. */
import { type Html, html } from "../html.ts"
import { type Field, fieldRow, NOTHING_WRONG, type Typed } from "./fields.ts"
import { type ActionLink, type Column, empty, type Pages, pageHead, pager, table } from "./parts.ts"

export interface ListView<Row> {
  readonly title: string
  readonly about: string | null
  readonly actions: ReadonlyArray<ActionLink>
  /** The path of the page. */
  readonly path: string
  readonly filters: ReadonlyArray<Field>
  /** The filters that are set. */
  readonly typed: Typed
  readonly columns: ReadonlyArray<Column<Row>>
  readonly rows: ReadonlyArray<Row>
  readonly empty: { readonly title: string; readonly text: string; readonly action: ActionLink | null }
  readonly pages: Pages
}

const filterForm = <Row>({ path, filters, typed }: ListView<Row>): Html | false =>
  filters.length > 0 &&
  html`<form class="filters" action="${path}">${filters.map((field) => fieldRow({ ...field, isFilter: true }, typed, NOTHING_WRONG))}<button class="plain">Filter</button>${
    typed.size > 0 && html`<a href="${path}">Show all</a>`
  }</form>
`

export const listMain = <Row>(view: ListView<Row>): Html => {
  const { title, about, actions, rows, columns, typed, pages } = view
  const content = html`${table(title, columns, rows)}${pager(pages)}`
  const nothing =
    typed.size > 0 || pages.first !== null
      ? empty("Nothing matches", "No object matches these filters.", { href: view.path, label: "Show all" })
      : empty(view.empty.title, view.empty.text, view.empty.action)
  return html`${pageHead(title, about, actions)}${filterForm(view)}${rows.length === 0 ? nothing : content}`
}
