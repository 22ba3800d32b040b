-- Creates cells (decisions O) and the moves of accounts between them (docs/scaling.md).

CREATE TABLE cell (
  only_row boolean DEFAULT true NOT NULL,
  id text COLLATE "C" NOT NULL,
  joined boolean DEFAULT false NOT NULL,
  CONSTRAINT cell_pkey PRIMARY KEY (only_row),
  CONSTRAINT cell_only_row CHECK (only_row),
  CONSTRAINT cell_id_base62 CHECK (id ~ '^[0-9A-Za-z]{2}$')
);
COMMENT ON TABLE cell IS 'The cell of this database, by the name in the setting CELL of its processes.';
COMMENT ON COLUMN cell.joined IS 'Whether it has joined a deployment. If so, processes with another CELL are refused.';

-- A moving account has a row at its source and one at its target. If its state is neither `copying` nor `opened`, writes to the
-- account are refused.
CREATE TABLE account_move (
  account_id text COLLATE "C" NOT NULL,
  move_id text COLLATE "C" NOT NULL,
  state text NOT NULL,
  cell text COLLATE "C" NOT NULL,
  started_at timestamptz DEFAULT clock_timestamp() NOT NULL,
  fenced_at timestamptz,
  left_at timestamptz,
  rows bigint,
  CONSTRAINT account_move_pkey PRIMARY KEY (account_id),
  CONSTRAINT account_move_state_known CHECK (state IN ('copying', 'fenced', 'left', 'arriving', 'withdrawn', 'opened')),
  CONSTRAINT account_move_fenced CHECK ((fenced_at IS NOT NULL) = (state IN ('fenced', 'left'))),
  CONSTRAINT account_move_left CHECK ((left_at IS NOT NULL) = (state = 'left'))
);
COMMENT ON TABLE account_move IS 'Accounts that are moving between this cell and another (src/cells).';
COMMENT ON COLUMN account_move.state IS 'At the source: copying (it works as usual), fenced (its writes are refused), left (it lives in the other cell, its rows are being archived). At the target: arriving, withdrawn (the source may continue), opened (it lives here).';
COMMENT ON COLUMN account_move.cell IS 'The other cell.';
COMMENT ON COLUMN account_move.rows IS 'The number of rows that were equal on both sides at the comparison.';
ALTER TABLE account_move ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_move ON account_move TO billing_request USING (account_id = current_setting('billing.account_id'));
GRANT SELECT ON account_move TO billing_request;

CREATE TABLE account_kept (
  no bigint GENERATED ALWAYS AS IDENTITY,
  account_id text COLLATE "C" NOT NULL,
  move_id text COLLATE "C" NOT NULL,
  table_name text NOT NULL,
  content jsonb NOT NULL,
  kept_until timestamptz NOT NULL,
  CONSTRAINT account_kept_pkey PRIMARY KEY (no)
);
COMMENT ON TABLE account_kept IS 'Archived rows of accounts that have moved away, in their last state, kept 7 days.';
CREATE INDEX account_kept_until ON account_kept (kept_until);

CREATE TABLE account_mark (
  account_id text COLLATE "C" NOT NULL,
  mark text NOT NULL,
  CONSTRAINT account_mark_pkey PRIMARY KEY (account_id)
);
COMMENT ON TABLE account_mark IS 'The last row that is written for an account at its source. If it has arrived at the target, all rows have.';

CREATE FUNCTION refuse_moving(account text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM account_move m WHERE m.account_id = account) THEN RETURN; END IF;
  -- A fence of the account waits for transactions with this lock.
  PERFORM pg_advisory_xact_lock_shared(7301010, hashtext(account));
  IF EXISTS (SELECT 1 FROM account_move m WHERE m.account_id = account AND m.state NOT IN ('copying', 'opened')) THEN
    RAISE EXCEPTION 'the account % is moving to another cell', account USING ERRCODE = 'BM001';
  END IF;
END $$;
COMMENT ON FUNCTION refuse_moving IS 'Fails with BM001 if an account is fenced. Otherwise the account is not fenced before the running transaction ends.';

CREATE FUNCTION switch_fence(t text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE wanted boolean; standing boolean;
BEGIN
  PERFORM set_config('lock_timeout', '200', true), pg_advisory_xact_lock(7301011);
  wanted := EXISTS (SELECT 1 FROM account_move);
  standing := EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = t::regclass AND tgname = 'account_moving' AND tgenabled <> 'D');
  IF wanted <> standing THEN
    EXECUTE format('ALTER TABLE %s %s TRIGGER account_moving', t::regclass, CASE WHEN wanted THEN 'ENABLE' ELSE 'DISABLE' END);
  END IF;
END $$;
COMMENT ON FUNCTION switch_fence IS 'Switches the fence of a table on if an account is moving, else off.';

CREATE FUNCTION enter_tenant(account text, live boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
  is_reset boolean := false;
  is_moving boolean;
BEGIN
  IF live THEN
    is_moving := EXISTS (SELECT FROM account_move WHERE account_id = account);
  ELSE
    -- A reset is checked twice: before the lock, to not wait for a running one; and after it, because one may have been requested meanwhile.
    PERFORM pg_advisory_xact_lock_shared(7301003, hashtext(account)) WHERE NOT EXISTS (SELECT FROM sandbox_reset WHERE account_id = account AND NOT livemode);
    SELECT EXISTS (SELECT FROM sandbox_reset WHERE account_id = account AND NOT livemode), EXISTS (SELECT FROM account_move WHERE account_id = account) INTO is_reset, is_moving;
  END IF;
  IF is_reset THEN
    RAISE EXCEPTION 'the sandbox of % is being reset', account USING ERRCODE = 'BR001';
  END IF;
  IF is_moving THEN PERFORM refuse_moving(account); END IF;
  PERFORM set_config('billing.account_id', account, true), set_config('billing.livemode', live::text, true);
END $$;
COMMENT ON FUNCTION enter_tenant IS 'Starts the transaction of a request: row-level security limits it to its account and environment. BR001: the sandbox is being reset; BM001: the account is moving.';
REVOKE ALL ON FUNCTION enter_tenant FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enter_tenant TO billing_request;

CREATE FUNCTION refuse_moving_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN PERFORM refuse_moving(OLD.account_id); ELSE PERFORM refuse_moving(NEW.account_id); END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION refuse_moving_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM refuse_moving(OLD.id);
  RETURN NULL;
END $$;

DO $$
DECLARE t text;
BEGIN
  FOR t IN
    SELECT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attname = 'livemode' AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1
  LOOP
    EXECUTE format('CREATE TRIGGER account_moving AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_moving_row()', t);
    EXECUTE format('ALTER TABLE %I DISABLE TRIGGER account_moving', t);
  END LOOP;
END $$;
CREATE TRIGGER account_moving AFTER UPDATE OR DELETE ON account FOR EACH ROW EXECUTE FUNCTION refuse_moving_account();
ALTER TABLE account DISABLE TRIGGER account_moving;
