-- A change of an account says whose it is, so that processes forget that account's keys and nobody else's; changes that no
-- key's rights depend on are not announced.

DROP TRIGGER account_announce ON account;
CREATE OR REPLACE FUNCTION announce_account_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('api_key_changed', NEW.id);
  RETURN NULL;
END $$;
CREATE TRIGGER account_announce AFTER UPDATE ON account FOR EACH ROW
  WHEN ((OLD.live_access, OLD.api_plan) IS DISTINCT FROM (NEW.live_access, NEW.api_plan))
  EXECUTE FUNCTION announce_account_change();
COMMENT ON FUNCTION announce_account_change IS 'Tells every process to forget what it remembers of an account''s keys.';
