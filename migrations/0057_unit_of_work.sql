-- What a statement writes only if all that it goes by is still so.
CREATE FUNCTION expect_rows(name text, returned bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF returned <> expected THEN
    RAISE EXCEPTION '%: % rows for %', name, returned, expected USING ERRCODE = 'BK001', CONSTRAINT = name;
  END IF;
END $$;
COMMENT ON FUNCTION expect_rows IS 'Ends the statement unless so many rows were found. BK001, with the name as its constraint: something has changed since it was read.';
GRANT EXECUTE ON FUNCTION expect_rows TO billing_request;
DROP FUNCTION refuse_outdated;
