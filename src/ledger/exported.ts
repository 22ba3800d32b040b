/** Types of an export: the lines of the books that it reads, and the writer of its text. */

/** A ledger line with its entry. */
export interface ExportedLine {
  readonly account_id: string
  readonly livemode: boolean
  readonly entry_id: string
  readonly event: string
  readonly effective_on: string
  readonly occurred_on: string
  readonly posted_at: string
  readonly line_no: number
  readonly ledger_account: string
  readonly kind: string
  readonly detail: string | null
  readonly currency: string
  readonly amount_kobo: number
  readonly customer_id: string | null
  readonly subscription_id: string | null
  readonly charge_id: string | null
  readonly plan_id: string | null
  readonly corrects: string | null
  /** Why a person booked it; null: the service did. */
  readonly reason: string | null
}

/** A writer of one format: first the head, then batches of whole entries. */
export interface Writer {
  readonly head: string
  readonly body: (lines: ReadonlyArray<ExportedLine>) => string
}
