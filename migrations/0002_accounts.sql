-- Creates accounts (merchants), their keys, their usage and the service's invoices.
--
-- Primary keys start with account_id, so every table can be distributed by it. Secondary indexes start with another column: without
-- statistics, the planner must not use them for a look-up by primary key.
-- Row-level security limits a request (role billing_request) to its account and environment.

CREATE TABLE account (
  id text COLLATE "C" NOT NULL,
  business_name text NOT NULL,
  email text,
  vertical text,
  api_plan text DEFAULT 'starter'::text NOT NULL,
  live_access text DEFAULT 'not_requested'::text NOT NULL,
  created_at timestamptz NOT NULL,
  rail text DEFAULT 'simulator'::text NOT NULL,
  cells text[] DEFAULT '{}'::text[] NOT NULL,
  live_since timestamptz,
  CONSTRAINT account_pkey PRIMARY KEY (id),
  CONSTRAINT account_vertical_known CHECK (vertical IN ('generic', 'estate_management', 'meal_plan', 'gym_fitness', 'insurance', 'waste', 'fuel', 'laundry', 'ecommerce')),
  CONSTRAINT account_api_plan_known CHECK (api_plan IN ('starter', 'growth', 'scale', 'enterprise')),
  CONSTRAINT account_live_access_known CHECK (live_access IN ('not_requested', 'pending_review', 'approved', 'rejected', 'suspended')),
  CONSTRAINT account_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave'))
);
COMMENT ON TABLE account IS 'Merchants. All other rows belong to one (account_id).';
COMMENT ON COLUMN account.vertical IS 'The provider''s business type; null: not chosen yet.';
COMMENT ON COLUMN account.rail IS 'The rail of new payment methods in live (decision P4). The sandbox always uses the simulator.';
COMMENT ON COLUMN account.cells IS 'The cells in which it lived before this one. Its older links name them.';
COMMENT ON COLUMN account.live_since IS 'When live access was approved; null: never, or on the first day.';
ALTER TABLE account ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_account ON account TO billing_request USING (id = current_setting('billing.account_id'));
GRANT SELECT, UPDATE (vertical) ON account TO billing_request;

CREATE TABLE api_key (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  type text NOT NULL,
  hash bytea NOT NULL,
  prefix text NOT NULL,
  last4 text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz,
  scopes jsonb DEFAULT '{}'::jsonb NOT NULL,
  origins text[] DEFAULT '{}'::text[] NOT NULL,
  last_used_at timestamptz,
  cell text COLLATE "C" NOT NULL,
  CONSTRAINT api_key_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT api_key_hash_unique UNIQUE (hash),
  CONSTRAINT api_key_type_known CHECK (type IN ('secret', 'publishable', 'restricted')),
  CONSTRAINT api_key_scopes_of_restricted CHECK (type = 'restricted' OR scopes = '{}'),
  CONSTRAINT api_key_origins_of_publishable CHECK (type = 'publishable' OR origins = '{}'),
  CONSTRAINT api_key_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE api_key IS 'API keys. Only the SHA-256, the prefix and the last four characters of a key are stored (decision J1).';
COMMENT ON COLUMN api_key.expires_at IS 'End of the grace period of a rolled key.';
COMMENT ON COLUMN api_key.scopes IS 'Permissions of a restricted key: read or write by scope (write includes read).';
COMMENT ON COLUMN api_key.origins IS 'Browser origins that may use a publishable key.';
COMMENT ON COLUMN api_key.last_used_at IS 'Exact to the minute; written in batches.';
COMMENT ON COLUMN api_key.cell IS 'The cell that made the key. The key itself names it.';
ALTER TABLE api_key ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON api_key TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));

CREATE TABLE administrator_key (
  id text COLLATE "C" NOT NULL,
  name text NOT NULL,
  hash bytea NOT NULL,
  last4 text NOT NULL,
  created_at timestamptz NOT NULL,
  revoked_at timestamptz,
  last_used_at timestamptz,
  CONSTRAINT administrator_key_pkey PRIMARY KEY (id),
  CONSTRAINT administrator_key_hash_unique UNIQUE (hash)
);
COMMENT ON TABLE administrator_key IS 'Keys of the service''s administrators (adm_…), made only by the command line (decision J3).';
COMMENT ON COLUMN administrator_key.last_used_at IS 'Exact to the minute; written in batches.';

CREATE TABLE provider_history (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  previous_vertical text,
  new_vertical text NOT NULL,
  administrator text NOT NULL,
  reason text NOT NULL,
  created_at timestamptz NOT NULL,
  CONSTRAINT provider_history_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT provider_history_kept_with_live CHECK (livemode),
  CONSTRAINT provider_history_previous_vertical_known CHECK (previous_vertical IS NULL OR previous_vertical IN ('generic', 'estate_management', 'meal_plan', 'gym_fitness', 'insurance', 'waste', 'fuel', 'laundry', 'ecommerce')),
  CONSTRAINT provider_history_new_vertical_known CHECK (new_vertical IN ('generic', 'estate_management', 'meal_plan', 'gym_fitness', 'insurance', 'waste', 'fuel', 'laundry', 'ecommerce')),
  CONSTRAINT provider_history_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE provider_history IS 'Changes of providers'' business types by administrators.';
COMMENT ON COLUMN provider_history.livemode IS 'Always true: a business type is the same in both environments, and its history is in live.';
ALTER TABLE provider_history ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON provider_history TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON provider_history TO billing_request;

CREATE TABLE account_plan_change (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  previous_plan text NOT NULL,
  new_plan text NOT NULL,
  created_at timestamptz NOT NULL,
  CONSTRAINT account_plan_change_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT account_plan_change_live_only CHECK (livemode),
  CONSTRAINT account_plan_change_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE account_plan_change IS 'Changes of accounts'' API plans. Invoices charge each plan for its share of the month (decision K4).';
ALTER TABLE account_plan_change ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON account_plan_change TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT ON account_plan_change TO billing_request;

-- Usage of the service, counted with each write, by calendar month.
CREATE TABLE usage_counter (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  period_start_at timestamptz NOT NULL,
  write_requests bigint DEFAULT 0 NOT NULL,
  read_requests bigint DEFAULT 0 NOT NULL,
  nudges bigint DEFAULT 0 NOT NULL,
  write_threshold smallint DEFAULT 0 NOT NULL,
  nudge_threshold smallint DEFAULT 0 NOT NULL,
  updated_at timestamptz DEFAULT now() NOT NULL,
  CONSTRAINT usage_counter_pkey PRIMARY KEY (account_id, livemode, period_start_at),
  CONSTRAINT usage_counter_live_only CHECK (livemode),
  CONSTRAINT usage_counter_counts CHECK (write_requests >= 0 AND read_requests >= 0 AND nudges >= 0),
  CONSTRAINT usage_counter_thresholds_known CHECK (write_threshold IN (0, 80, 100) AND nudge_threshold IN (0, 80, 100)),
  CONSTRAINT usage_counter_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
) WITH (fillfactor=50);
COMMENT ON TABLE usage_counter IS 'Usage of an account in a calendar month (decision K1). Writes are counted in the transaction of the write, so the count is exact.';
COMMENT ON COLUMN usage_counter.write_threshold IS 'The highest announced percentage of the allowance: each is announced once (decision K3).';
ALTER TABLE usage_counter ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON usage_counter TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE ON usage_counter TO billing_request;

CREATE TABLE owner_email (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  recipient text NOT NULL,
  subject text NOT NULL,
  body text NOT NULL,
  created_at timestamptz DEFAULT now() NOT NULL,
  sent_at timestamptz,
  tries smallint DEFAULT 0 NOT NULL,
  next_try_at timestamptz DEFAULT now() NOT NULL,
  failure_reason text,
  CONSTRAINT owner_email_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT owner_email_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE owner_email IS 'E-mails to account owners, written in the transaction of their cause. A messenger sends them.';
CREATE INDEX owner_email_waiting ON owner_email (next_try_at) WHERE sent_at IS NULL AND failure_reason IS NULL;
ALTER TABLE owner_email ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON owner_email TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON owner_email TO billing_request;

CREATE TABLE invoice (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  state text NOT NULL,
  version integer NOT NULL,
  test_clock_id text COLLATE "C",
  period_start_at timestamptz NOT NULL,
  period_end_at timestamptz NOT NULL,
  currency text DEFAULT 'NGN'::text NOT NULL,
  lines jsonb NOT NULL,
  total_kobo bigint NOT NULL,
  due_at timestamptz NOT NULL,
  paid_at timestamptz,
  created_at timestamptz NOT NULL,
  vat_kobo bigint DEFAULT 0 NOT NULL,
  CONSTRAINT invoice_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT invoice_period_once UNIQUE (period_start_at, account_id, livemode),
  CONSTRAINT invoice_live_only CHECK (livemode),
  CONSTRAINT invoice_wall_clock_only CHECK (test_clock_id IS NULL),
  CONSTRAINT invoice_state_known CHECK (state IN ('open', 'overdue', 'paid', 'void')),
  CONSTRAINT invoice_paid_is_dated CHECK ((state = 'paid') = (paid_at IS NOT NULL)),
  CONSTRAINT invoice_period_is_a_month CHECK (period_start_at = date_trunc('month', period_start_at, 'UTC') AND period_end_at > period_start_at),
  CONSTRAINT invoice_currency_ngn CHECK (currency = 'NGN'),
  CONSTRAINT invoice_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE invoice IS 'A merchant''s invoice from the service for a month. It is created once, even if the job runs twice. Its columns are the snapshot of machines/invoice.ts.';
COMMENT ON COLUMN invoice.vat_kobo IS 'The VAT that the total includes.';
CREATE INDEX invoice_id ON invoice (id);
CREATE INDEX invoice_state ON invoice (state, account_id, livemode, id);
ALTER TABLE invoice ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON invoice TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT ON invoice TO billing_request;

CREATE TABLE service_secret (
  name text NOT NULL,
  sealed bytea NOT NULL,
  CONSTRAINT service_secret_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE service_secret IS 'Random secrets that only the processes of the service share, such as the key of signed links.';
COMMENT ON COLUMN service_secret.sealed IS 'The value, encrypted with ENCRYPTION_KEY; its name is the associated data.';

CREATE FUNCTION announce_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('api_key_changed', encode(OLD.hash, 'hex'));
  RETURN NULL;
END $$;
COMMENT ON FUNCTION announce_key_change IS 'Notifies every process to drop a key from its cache, so that revoking takes effect immediately.';

CREATE FUNCTION announce_account_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('api_key_changed', NEW.id);
  RETURN NULL;
END $$;
COMMENT ON FUNCTION announce_account_change IS 'Notifies every process to drop an account''s keys from its cache.';

CREATE TRIGGER account_announce AFTER UPDATE ON account FOR EACH ROW WHEN ((OLD.live_access, OLD.api_plan) IS DISTINCT FROM (NEW.live_access, NEW.api_plan)) EXECUTE FUNCTION announce_account_change();
CREATE TRIGGER administrator_key_announce AFTER UPDATE OF name, revoked_at ON administrator_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();
CREATE TRIGGER administrator_key_announce_deleted AFTER DELETE ON administrator_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();
CREATE TRIGGER api_key_announce AFTER UPDATE OF expires_at, revoked_at, scopes, origins ON api_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();
CREATE TRIGGER api_key_announce_deleted AFTER DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();

INSERT INTO account (id, business_name, created_at) VALUES ('acct_service', 'The service itself', now());
