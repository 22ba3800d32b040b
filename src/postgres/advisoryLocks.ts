/**
 * The advisory locks that there are, by number: any of our own, each of one meaning. Where a lock is of one object, the number is its class
 * and a second number says whose it is. Functions of the database (migrations/) take some of them too, and 7301011 alone.
 */
export const LOCKS = {
  /** Migrating: one process at a time. */
  migration: 7_301_001,
  /** Held by each process for as long as it lives, by its number. */
  runner: 7_301_002,
  /** An account's sandbox: shared by who writes to it (`enter_sandbox`), alone by its reset. */
  sandbox: 7_301_003,
  /** Attempts in the sandbox that count how often a payment method was used, by method. */
  attempt: 7_301_004,
  /** Adding webhook endpoints, by account. */
  endpointSlots: 7_301_006,
  /** Making the demo's account. */
  demo: 7_301_009,
  /** The books: 0 shared by who posts (`ledger_open_from`), alone by who closes a month; 1 by who closes or reopens one. */
  books: 7_301_010,
  /**
   * An account that moves: shared by who writes it (`refuse_moving`), alone by who fences it. It has the books' number since both were
   * released: an account whose ID hashes to 0 or 1 would wait for them for a moment, no more.
   */
  fence: 7_301_010,
  /** Moving an account: one mover at a time, by account. */
  mover: 7_301_012,
  /** Adding instalment products, by account and environment. */
  products: 7_301_013,
  /** Booking settlements: one file at a time. */
  settlements: 7_301_014,
} as const
