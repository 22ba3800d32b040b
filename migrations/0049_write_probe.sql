-- What GET /readyz writes to learn whether writes work (decision A14).
CREATE TABLE write_probe (at timestamptz NOT NULL);

COMMENT ON TABLE write_probe IS 'Always empty: write_probe() adds a row and takes it back. Each try leaves a dead row, which autovacuum removes by the page.';

-- A small row alone finds room in a page that exists already: a temporary file has to be given new room on the disk, so that a full one
-- shows, and is removed at once. The transaction commits with the row taken back, so its record goes to the write-ahead log as any other's.
CREATE FUNCTION write_probe() RETURNS void LANGUAGE plpgsql SET work_mem = '64kB' AS $$
BEGIN
  INSERT INTO write_probe (at) VALUES (clock_timestamp());
  PERFORM count(*) FROM generate_series(1, 20000);
  RAISE EXCEPTION USING ERRCODE = 'WP000', MESSAGE = 'taken back';
EXCEPTION WHEN SQLSTATE 'WP000' THEN
  RETURN;
END $$;

REVOKE ALL ON FUNCTION write_probe() FROM PUBLIC;
