-- Accounts (merchants) and their API keys.
--
-- Primary keys begin with account_id, so that every table can be distributed by it. Secondary indexes begin with their
-- own column instead: a planner that knows nothing of a young table yet must not take one for a look-up by primary key.

CREATE EXTENSION IF NOT EXISTS btree_gist;

CREATE TABLE account (
  id            text COLLATE "C" NOT NULL,
  business_name text NOT NULL,
  email         text,
  vertical      text NOT NULL DEFAULT 'generic',
  api_plan      text NOT NULL DEFAULT 'starter',
  live_access   text NOT NULL DEFAULT 'not_requested',
  created_at    timestamptz NOT NULL,
  CONSTRAINT account_pkey PRIMARY KEY (id),
  CONSTRAINT account_vertical_known CHECK (vertical IN ('generic', 'estate_management', 'meal_plan', 'gym_fitness', 'insurance', 'waste', 'fuel', 'laundry', 'ecommerce')),
  CONSTRAINT account_api_plan_known CHECK (api_plan IN ('starter', 'growth', 'scale', 'enterprise')),
  CONSTRAINT account_live_access_known CHECK (live_access IN ('not_requested', 'pending_review', 'approved', 'rejected', 'suspended'))
);
COMMENT ON TABLE account IS 'A merchant. Everything else belongs to one (its account_id).';

CREATE TABLE api_key (
  account_id   text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode     boolean NOT NULL,
  id           text COLLATE "C" NOT NULL,
  type         text NOT NULL,
  hash         bytea NOT NULL,
  prefix       text NOT NULL,
  last4        text NOT NULL,
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz,
  revoked_at   timestamptz,
  CONSTRAINT api_key_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT api_key_hash_unique UNIQUE (hash),
  CONSTRAINT api_key_type_known CHECK (type IN ('secret', 'publishable', 'restricted'))
);
COMMENT ON TABLE api_key IS 'API keys. The key itself is never kept, only its SHA-256, prefix and last four characters (decision J1).';
COMMENT ON COLUMN api_key.expires_at IS 'End of the grace period of a rolled key.';

CREATE FUNCTION announce_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('api_key_changed', encode(OLD.hash, 'hex'));
  RETURN NULL;
END $$;
CREATE TRIGGER api_key_announce AFTER UPDATE OR DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();
CREATE FUNCTION announce_account_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('api_key_changed', 'account');
  RETURN NULL;
END $$;
CREATE TRIGGER account_announce AFTER UPDATE ON account FOR EACH STATEMENT EXECUTE FUNCTION announce_account_change();
COMMENT ON FUNCTION announce_key_change IS 'Tells every process to forget what it remembers of a key: revoking works at once everywhere.';
