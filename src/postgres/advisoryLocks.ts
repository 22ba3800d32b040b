/**
 * The numbers of all advisory locks, each with one meaning. If a lock is of one object, the number is its class and a second number
 * names the object. Functions of the database (migrations/) take some of them too; 7301011 is taken by functions only.
 */
export const LOCKS = {
  /** Migrating: one process at a time. */
  migration: 7_301_001,
  /** Each process keeps one for its lifetime, by its number. */
  runner: 7_301_002,
  /** An account's sandbox: writers take it shared (`enter_sandbox`), a reset takes it exclusively. */
  sandbox: 7_301_003,
  /** Attempts in the sandbox that count the uses of a payment method, by method. */
  attempt: 7_301_004,
  /** Adding webhook endpoints, by account. */
  endpointSlots: 7_301_006,
  /** Creating the demo account. */
  demo: 7_301_009,
  /** The books. 0: posting takes it shared (`ledger_open_from`), closing a month takes it exclusively; 1: closing or reopening a month. */
  books: 7_301_010,
  /**
   * An account that moves: writers take it shared (`refuse_moving`), the fence takes it exclusively. It has the books' number since both
   * were released: an account whose ID hashes to 0 or 1 waits for the books for a moment, no more.
   */
  fence: 7_301_010,
  /** Moving an account: one mover at a time, by account. */
  mover: 7_301_012,
  /** Adding instalment products, by account and environment. */
  products: 7_301_013,
  /** Booking settlements: one file at a time. */
  settlements: 7_301_014,
  /** Sending codes that sign in, by e-mail address and by network. The lock of the address is taken first. */
  codesOfAddress: 7_301_015,
  codesOfNetwork: 7_301_016,
  /** Merging the totals of days: one process at a time. */
  dayTotals: 7_301_017,
} as const
