-- Cells (decisions O): which one this database is, and accounts on their way to another (docs/scaling.md).

CREATE TABLE cell (
  only_row  boolean NOT NULL DEFAULT true,
  id        text COLLATE "C" NOT NULL,
  joined    boolean NOT NULL DEFAULT false,
  CONSTRAINT cell_pkey PRIMARY KEY (only_row),
  CONSTRAINT cell_only_row CHECK (only_row),
  CONSTRAINT cell_id_base62 CHECK (id ~ '^[0-9A-Za-z]{2}$')
);
COMMENT ON TABLE cell IS 'The cell that this database is, as its processes name it (CELL).';
COMMENT ON COLUMN cell.joined IS 'Whether it has joined a deployment: from then on processes that name another cell are refused.';

-- An account that moves has a row at its source and one at its target. Where that is neither `copying` nor `opened`, nothing of
-- the account is written.
CREATE TABLE account_move (
  account_id  text COLLATE "C" NOT NULL,
  move_id     text COLLATE "C" NOT NULL,
  state       text NOT NULL,
  cell        text COLLATE "C" NOT NULL,
  started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  fenced_at   timestamptz,
  left_at     timestamptz,
  rows        bigint,
  CONSTRAINT account_move_pkey PRIMARY KEY (account_id),
  CONSTRAINT account_move_state_known CHECK (state IN ('copying', 'fenced', 'left', 'arriving', 'withdrawn', 'opened')),
  CONSTRAINT account_move_fenced CHECK ((fenced_at IS NOT NULL) = (state IN ('fenced', 'left'))),
  CONSTRAINT account_move_left CHECK ((left_at IS NOT NULL) = (state = 'left'))
);
COMMENT ON TABLE account_move IS 'Accounts that are moving between this cell and another (src/moving).';
COMMENT ON COLUMN account_move.state IS 'At the source: copying (it works as ever), fenced (its writes are refused), left (it lives elsewhere, its rows are being put aside). At the target: arriving, withdrawn (its source may go on), opened (it lives here).';
COMMENT ON COLUMN account_move.cell IS 'The other cell.';
COMMENT ON COLUMN account_move.rows IS 'Rows that both sides had in common when they were compared.';

-- A request may look whether its own account is one of them.
ALTER TABLE account_move ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_move ON account_move TO billing_request USING (account_id = current_setting('billing.account_id'));
GRANT SELECT ON account_move TO billing_request;

ALTER TABLE api_key ADD COLUMN cell text COLLATE "C";
COMMENT ON COLUMN api_key.cell IS 'The cell that made it, which the key itself names; null: from before there were cells.';

ALTER TABLE account ADD COLUMN cells text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN account.cells IS 'The cells that it has lived in before this one, which its older links name.';

CREATE TABLE account_mark (
  account_id  text COLLATE "C" NOT NULL,
  mark        text NOT NULL,
  CONSTRAINT account_mark_pkey PRIMARY KEY (account_id)
);
COMMENT ON TABLE account_mark IS 'The last that is written of an account at its source: whoever sees it at the target has everything.';

CREATE TABLE account_kept (
  no          bigint GENERATED ALWAYS AS IDENTITY,
  account_id  text COLLATE "C" NOT NULL,
  move_id     text COLLATE "C" NOT NULL,
  table_name  text NOT NULL,
  content     jsonb NOT NULL,
  kept_until  timestamptz NOT NULL,
  CONSTRAINT account_kept_pkey PRIMARY KEY (no)
);
CREATE INDEX account_kept_until ON account_kept (kept_until);
COMMENT ON TABLE account_kept IS 'Rows of accounts that have moved away, as they were when they left, for 7 days.';

-- The fence. Its triggers are off but for the time in which some account moves: nothing that is written of a fenced account
-- gets past them, whoever writes it. A mover is not held up: it writes as a replica does, for which triggers do not fire.
CREATE FUNCTION refuse_moving(account text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM account_move m WHERE m.account_id = account) THEN RETURN; END IF;
  -- Whoever fences the account waits for those who have looked before.
  PERFORM pg_advisory_xact_lock_shared(7301010, hashtext(account));
  IF EXISTS (SELECT 1 FROM account_move m WHERE m.account_id = account AND m.state NOT IN ('copying', 'opened')) THEN
    RAISE EXCEPTION 'the account % is moving to another cell', account USING ERRCODE = 'BM001';
  END IF;
END $$;
COMMENT ON FUNCTION refuse_moving IS 'Fails with BM001 where an account is fenced; otherwise it is not fenced before the running transaction ends.';
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

-- As account_move says; whoever is writing to the table is waited for, for a moment.
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
COMMENT ON FUNCTION switch_fence IS 'Switches the fence of a table on where some account is moving, and off where none is.';

-- A request of a fenced account is refused before it does anything; for processes of the version before, which begin so.
CREATE OR REPLACE FUNCTION enter_request(account text, live boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE open boolean := live OR enter_sandbox(account);
BEGIN
  PERFORM refuse_moving(account);
  PERFORM set_config('billing.account_id', account, true), set_config('billing.livemode', live::text, true), set_config('role', 'billing_request', true);
  RETURN open;
END $$;

-- The same for connections that are of the request's role from their first moment: whatever becomes of a transaction, that role
-- sees and writes nothing but what belongs to the account and the environment that it has entered.
CREATE FUNCTION enter_tenant(account text, live boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF NOT (live OR enter_sandbox(account)) THEN
    RAISE EXCEPTION 'the sandbox of % is being reset', account USING ERRCODE = 'BR001';
  END IF;
  PERFORM refuse_moving(account);
  PERFORM set_config('billing.account_id', account, true), set_config('billing.livemode', live::text, true);
END $$;
COMMENT ON FUNCTION enter_tenant IS 'Begins the transaction of a request, which row-level security holds to its account and environment. BR001: the sandbox is being reset; BM001: the account is moving.';
REVOKE ALL ON FUNCTION enter_tenant FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enter_tenant TO billing_request;
