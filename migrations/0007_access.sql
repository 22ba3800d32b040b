-- Who may do what: scopes and origins of keys, administrators, and what accounts are and may.

ALTER TABLE api_key
  ADD COLUMN scopes jsonb NOT NULL DEFAULT '{}',
  ADD COLUMN origins text[] NOT NULL DEFAULT '{}',
  ADD COLUMN last_used_at timestamptz,
  ADD CONSTRAINT api_key_scopes_of_restricted CHECK (type = 'restricted' OR scopes = '{}'),
  ADD CONSTRAINT api_key_origins_of_publishable CHECK (type = 'publishable' OR origins = '{}');
COMMENT ON COLUMN api_key.scopes IS 'What a restricted key may do: scope to read or write (write includes read).';
COMMENT ON COLUMN api_key.origins IS 'Browser origins that may use a publishable key.';
COMMENT ON COLUMN api_key.last_used_at IS 'To the minute; written in batches.';

-- That a key was used is no change of the key.
DROP TRIGGER api_key_announce ON api_key;
CREATE TRIGGER api_key_announce AFTER UPDATE OF expires_at, revoked_at, scopes, origins ON api_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();
CREATE TRIGGER api_key_announce_deleted AFTER DELETE ON api_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();

-- Kept answers are encrypted with the caller's own key, of which only the hash is kept; those from before are dropped.
DELETE FROM idempotency_record;
ALTER TABLE idempotency_record DROP CONSTRAINT idempotency_record_answered;
ALTER TABLE idempotency_record DROP COLUMN response_body;
ALTER TABLE idempotency_record ADD COLUMN response_body bytea;
ALTER TABLE idempotency_record ADD CONSTRAINT idempotency_record_answered CHECK ((response_status IS NULL) = (response_body IS NULL));
COMMENT ON COLUMN idempotency_record.key IS 'SHA-256 of the Idempotency-Key: the key itself is kept nowhere.';
COMMENT ON COLUMN idempotency_record.response_body IS 'The answer, encrypted with a key that follows from the Idempotency-Key.';

CREATE TABLE administrator_key (
  id          text COLLATE "C" NOT NULL,
  name        text NOT NULL,
  hash        bytea NOT NULL,
  last4       text NOT NULL,
  created_at  timestamptz NOT NULL,
  revoked_at  timestamptz,
  CONSTRAINT administrator_key_pkey PRIMARY KEY (id),
  CONSTRAINT administrator_key_hash_unique UNIQUE (hash)
);
COMMENT ON TABLE administrator_key IS 'Keys of the service''s own people (adm_…), made by the command line only (decision J3).';
CREATE TRIGGER administrator_key_announce AFTER UPDATE OR DELETE ON administrator_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();

ALTER TABLE account
  ALTER COLUMN vertical DROP NOT NULL,
  ALTER COLUMN vertical DROP DEFAULT;
COMMENT ON COLUMN account.vertical IS 'The provider''s business type (spec 2.17); null until it is chosen.';

CREATE TABLE provider_history (
  account_id         text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode           boolean NOT NULL,
  id                 text COLLATE "C" NOT NULL,
  previous_vertical  text,
  new_vertical       text NOT NULL,
  administrator      text NOT NULL,
  reason             text NOT NULL,
  created_at         timestamptz NOT NULL,
  CONSTRAINT provider_history_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT provider_history_kept_with_live CHECK (livemode)
);
COMMENT ON TABLE provider_history IS 'Changes of a provider''s business type by administrators (spec 2.17).';
COMMENT ON COLUMN provider_history.livemode IS 'A business type holds in both environments; its history is kept with the live one.';
