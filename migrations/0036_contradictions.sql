-- Rails that take back what they said before are heard, and what is taken to save a card goes back however late it is.

ALTER TABLE rail_callback ADD COLUMN denies boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN rail_callback.denies IS 'Whether one of them says that it was not paid, or not any more: the rail is asked about one that was paid, too.';
