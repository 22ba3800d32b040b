-- The days of finance.clearing are those of the books.

COMMENT ON VIEW finance.clearing IS 'What each rail took by reference, what it sent back, what it paid out with its fee, and what it should still hold. One row for each payment, in the month in whose books it stands: where the month in which it was taken was closed by then, taken_on is the first open day (finance.general_ledger has occurred_on).';
