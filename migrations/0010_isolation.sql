-- Tenant isolation by the database itself: what a request does, it does as a role that sees one account and environment.

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
GRANT USAGE ON SCHEMA public TO billing_request;

-- Every table that belongs to an account and an environment, by its columns.
DO $$
DECLARE t text;
BEGIN
  FOR t IN
    SELECT a.attrelid::regclass::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attname = 'livemode' AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1
  LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format(
      'CREATE POLICY own_rows ON %s TO billing_request USING (account_id = current_setting(''billing.account_id'') AND livemode = current_setting(''billing.livemode'')::boolean)', t);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO billing_request', t);
  END LOOP;
END $$;
REVOKE ALL ON api_key FROM billing_request;
REVOKE UPDATE, DELETE ON ledger_entry, ledger_line, provider_history, owner_email FROM billing_request;
REVOKE INSERT, UPDATE, DELETE ON invoice, account_plan_change FROM billing_request;
REVOKE DELETE ON usage_counter FROM billing_request;

ALTER TABLE account ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_account ON account TO billing_request USING (id = current_setting('billing.account_id'));
GRANT SELECT, UPDATE (vertical) ON account TO billing_request;
GRANT SELECT ON ledger_account TO billing_request;

-- The transaction of a request: to its end it is the request's role, in its account and environment. Answers whether it
-- may write: a sandbox that is being reset takes nothing (decision M2).
CREATE FUNCTION enter_request(account text, live boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE open boolean := live OR enter_sandbox(account);
BEGIN
  PERFORM set_config('billing.account_id', account, true), set_config('billing.livemode', live::text, true), set_config('role', 'billing_request', true);
  RETURN open;
END $$;
COMMENT ON FUNCTION enter_request IS 'Begins the transaction of a request: row-level security holds it to its account and environment.';
