-- Every filter of a list walks an index in the order of the list, (column, account_id, livemode, id), as the role of
-- requests too: under row-level security only leakproof operators reach an index, which are plain comparisons of columns.

-- Customers by e-mail, whatever its case.
DROP INDEX customer_email;
ALTER TABLE customer ADD COLUMN email_key text GENERATED ALWAYS AS (lower(email)) STORED;
CREATE INDEX customer_email ON customer (email_key, account_id, livemode, id) WHERE email_key IS NOT NULL;
COMMENT ON COLUMN customer.email_key IS 'The e-mail address as the filter compares it.';

-- Customers by metadata: a row for each key with its value, so that a page is a walk by customer.
DROP INDEX customer_metadata;
CREATE TABLE customer_metadata_pair (
  account_id   text COLLATE "C" NOT NULL,
  livemode     boolean NOT NULL,
  digest       bytea NOT NULL,
  customer_id  text COLLATE "C" NOT NULL,
  CONSTRAINT customer_metadata_pair_pkey PRIMARY KEY (account_id, livemode, digest, customer_id)
);
COMMENT ON TABLE customer_metadata_pair IS 'Which customers have a key with a value in their metadata: kept by triggers of customer, read by the filter.';

CREATE FUNCTION metadata_digest(key text, value text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT substring(sha256(convert_to(length(key) || ':' || key || value, 'UTF8')) FOR 16)
$$;
COMMENT ON FUNCTION metadata_digest IS 'What a key with its value is found by: half of a SHA-256, so what is found is compared with the metadata itself too.';

CREATE FUNCTION keep_customer_metadata_pairs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    DELETE FROM customer_metadata_pair WHERE account_id = OLD.account_id AND livemode = OLD.livemode AND customer_id = OLD.id
      AND digest = ANY(ARRAY(SELECT metadata_digest(key, value) FROM jsonb_each_text(OLD.metadata)));
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO customer_metadata_pair (account_id, livemode, digest, customer_id)
    SELECT NEW.account_id, NEW.livemode, metadata_digest(key, value), NEW.id FROM jsonb_each_text(NEW.metadata);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER customer_metadata_added AFTER INSERT ON customer FOR EACH ROW WHEN (NEW.metadata <> '{}') EXECUTE FUNCTION keep_customer_metadata_pairs();
CREATE TRIGGER customer_metadata_changed AFTER UPDATE OF metadata ON customer FOR EACH ROW WHEN (NEW.metadata <> OLD.metadata) EXECUTE FUNCTION keep_customer_metadata_pairs();
CREATE TRIGGER customer_metadata_gone AFTER DELETE ON customer FOR EACH ROW WHEN (OLD.metadata <> '{}') EXECUTE FUNCTION keep_customer_metadata_pairs();
INSERT INTO customer_metadata_pair (account_id, livemode, digest, customer_id)
SELECT c.account_id, c.livemode, metadata_digest(m.key, m.value), c.id FROM customer c CROSS JOIN LATERAL jsonb_each_text(c.metadata) m;

ALTER TABLE customer_metadata_pair ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON customer_metadata_pair TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);
GRANT SELECT, INSERT, DELETE ON customer_metadata_pair TO billing_request;

-- Events between two instants. By account first, since ranges of all accounts overlap; partial, so that no look-up by
-- primary key takes it for the primary key: only what compares created_at can.
CREATE INDEX event_created ON event (account_id, livemode, created_at, id) INCLUDE (type) WHERE created_at IS NOT NULL;

-- Nudges that a messenger was given: partial for the same reason.
CREATE INDEX nudge_outbox ON nudge (account_id, livemode, id) WHERE attempts <> '[]';
CREATE INDEX nudge_status ON nudge (status, account_id, livemode, id);
CREATE INDEX nudge_channel ON nudge (channel, account_id, livemode, id);

-- A partial index serves no statement that is prepared for any status.
DROP INDEX subscription_status, charge_status;
CREATE INDEX subscription_status ON subscription (status, account_id, livemode, id);
CREATE INDEX charge_status ON charge (status, account_id, livemode, id);
CREATE INDEX charge_subscription ON charge (subscription_id, account_id, livemode, id) WHERE subscription_id IS NOT NULL;
CREATE INDEX plan_status ON plan (status, account_id, livemode, id);
CREATE INDEX invoice_state ON invoice (state, account_id, livemode, id);
