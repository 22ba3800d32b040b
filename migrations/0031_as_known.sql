-- What is written by what a process knows already, without a look before, holds only where nothing has changed since.
CREATE FUNCTION refuse_outdated(unchanged bigint, known bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF unchanged <> known THEN
    RAISE EXCEPTION 'of % rows, % are as they were known', known, unchanged USING ERRCODE = 'BK001';
  END IF;
END $$;
