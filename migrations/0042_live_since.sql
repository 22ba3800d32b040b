-- Nobody is billed for a month that was over before they were let into live.
ALTER TABLE account ADD COLUMN live_since timestamptz;
COMMENT ON COLUMN account.live_since IS 'When live access was approved; null: never, or from the first day on (so, too, where that was before this was kept).';
