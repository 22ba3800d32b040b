-- Creates the roles of requests and finance teams, the check of optimistic writes, and the readiness probe.

CREATE EXTENSION IF NOT EXISTS btree_gist;

DO $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'billing_request') THEN
    CREATE ROLE billing_request NOLOGIN NOBYPASSRLS;
  END IF;
EXCEPTION
  -- Another database of this server is being migrated at the same time.
  WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
DO $$ BEGIN EXECUTE format('GRANT billing_request TO %I', current_user); END $$;
DO $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'finance_reader') THEN
    CREATE ROLE finance_reader NOLOGIN NOBYPASSRLS;
  END IF;
EXCEPTION
  -- Another database of this server is being migrated at the same time.
  WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
DO $$ BEGIN EXECUTE format('GRANT finance_reader TO %I', current_user); END $$;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO billing_request;

CREATE FUNCTION expect_rows(name text, returned bigint, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF returned <> expected THEN
    RAISE EXCEPTION '%: % rows for %', name, returned, expected USING ERRCODE = 'BK001', CONSTRAINT = name;
  END IF;
END $$;
COMMENT ON FUNCTION expect_rows IS 'Fails the statement unless it found the expected number of rows. BK001, with the name as its constraint: a row has changed since it was read.';
GRANT EXECUTE ON FUNCTION expect_rows TO billing_request;

-- GET /readyz writes here to check that writes work (decision A14).
CREATE TABLE write_probe (
  at timestamptz NOT NULL
);
COMMENT ON TABLE write_probe IS 'Always empty: write_probe() inserts a row and rolls it back. Each try leaves a dead row, which autovacuum removes by the page.';

CREATE FUNCTION write_probe() RETURNS void LANGUAGE plpgsql SET work_mem = '64kB' AS $$
BEGIN
  INSERT INTO write_probe (at) VALUES (clock_timestamp());
  PERFORM count(*) FROM generate_series(1, 20000);
  RAISE EXCEPTION USING ERRCODE = 'WP000', MESSAGE = 'rolled back';
EXCEPTION WHEN SQLSTATE 'WP000' THEN
  RETURN;
END $$;
REVOKE ALL ON FUNCTION write_probe FROM PUBLIC;
