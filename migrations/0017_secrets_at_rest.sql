-- Secrets lie encrypted under ENCRYPTION_KEY, which the database does not have: what is here already stays as it is until
-- `cli secrets rotate` writes it anew.

ALTER TABLE webhook_secret ALTER COLUMN secret DROP NOT NULL;
ALTER TABLE webhook_secret ADD COLUMN sealed bytea;
ALTER TABLE webhook_secret ADD CONSTRAINT webhook_secret_in_one_form CHECK ((secret IS NULL) <> (sealed IS NULL));
COMMENT ON COLUMN webhook_secret.sealed IS 'The secret, encrypted under ENCRYPTION_KEY with its account, environment and endpoint as associated data.';
COMMENT ON COLUMN webhook_secret.secret IS 'The secret in the clear, where it was written before secrets were encrypted; null once `cli secrets rotate` has run.';

ALTER TABLE service_secret ALTER COLUMN value DROP NOT NULL;
ALTER TABLE service_secret ADD COLUMN sealed bytea;
ALTER TABLE service_secret ADD CONSTRAINT service_secret_in_one_form CHECK ((value IS NULL) <> (sealed IS NULL));
COMMENT ON COLUMN service_secret.sealed IS 'The value, encrypted under ENCRYPTION_KEY with its name as associated data.';
COMMENT ON COLUMN service_secret.value IS 'The value in the clear, where it was written before secrets were encrypted; null once `cli secrets rotate` has run.';

-- 256 KiB of answer, a nonce and a tag. Records that are larger are from before, and gone within a day.
ALTER TABLE idempotency_record ADD CONSTRAINT idempotency_record_bounded CHECK (octet_length(response_body) <= 262144 + 28) NOT VALID;
COMMENT ON COLUMN idempotency_record.key IS 'HMAC of the Idempotency-Key under a secret of the service. Within a day of the upgrade that began this: its SHA-256.';
COMMENT ON COLUMN idempotency_record.fingerprint IS 'HMAC of method, path and canonical body, likewise.';
COMMENT ON COLUMN idempotency_record.response_body IS 'The answer with nothing expanded, encrypted with a key that follows from the Idempotency-Key and a secret of the service; an empty text where it was too large to keep.';
COMMENT ON COLUMN idempotency_record.resource_id IS 'What the request has made so far: a try after a crash finishes it instead of making another, and whoever asks again is sent to it where the answer was too large to keep.';

ALTER TABLE administrator_key ADD COLUMN last_used_at timestamptz;
COMMENT ON COLUMN administrator_key.last_used_at IS 'To the minute; written in batches.';
-- That a key was used is no change of the key.
DROP TRIGGER administrator_key_announce ON administrator_key;
CREATE TRIGGER administrator_key_announce AFTER UPDATE OF name, revoked_at ON administrator_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();
CREATE TRIGGER administrator_key_announce_deleted AFTER DELETE ON administrator_key FOR EACH ROW EXECUTE FUNCTION announce_key_change();
