-- What nothing uses any more, and a comment that named a folder of old.

DROP FUNCTION enter_request(text, boolean);

COMMENT ON TABLE account_move IS 'Accounts that are moving between this cell and another (src/cells).';
