-- Webhooks: where events are delivered, with which secrets, and what came of it.

ALTER TABLE lifecycle_journal DROP CONSTRAINT lifecycle_journal_kind_known;
ALTER TABLE lifecycle_journal ADD CONSTRAINT lifecycle_journal_kind_known CHECK (actor_kind IN ('subscription', 'charge', 'test_clock', 'invoice', 'webhook_endpoint'));

CREATE TABLE webhook_endpoint (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  id               text COLLATE "C" NOT NULL,
  slot             smallint NOT NULL,
  url              text NOT NULL,
  description      text,
  enabled_events   text[] NOT NULL,
  state            text NOT NULL,
  version          integer NOT NULL,
  disabled_reason  text,
  given_up_to      bigint NOT NULL DEFAULT 0,
  runner           integer,
  failures         integer NOT NULL DEFAULT 0,
  failing_since    timestamptz,
  created_at       timestamptz NOT NULL,
  CONSTRAINT webhook_endpoint_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT webhook_endpoint_slot_known CHECK (slot BETWEEN 1 AND 16),
  CONSTRAINT webhook_endpoint_slot_taken_once UNIQUE (account_id, livemode, slot),
  CONSTRAINT webhook_endpoint_state_known CHECK (state IN ('enabled', 'disabled')),
  CONSTRAINT webhook_endpoint_reason_known CHECK (disabled_reason IS NULL OR disabled_reason IN ('endpoint_gone', 'repeated_failures') AND state = 'disabled'),
  CONSTRAINT webhook_endpoint_failing_is_dated CHECK ((failures > 0) = (failing_since IS NOT NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE webhook_endpoint IS 'Where an account wants its events (spec 2.9). state and disabled_reason are the snapshot of machines/webhook_endpoint.ts.';
COMMENT ON COLUMN webhook_endpoint.slot IS 'One of 16 places: an account has no more endpoints in an environment (decision I7).';
COMMENT ON COLUMN webhook_endpoint.given_up_to IS 'Deliveries up to this one (webhook_delivery.seq) are not sent any more: the endpoint was disabled after them.';
COMMENT ON COLUMN webhook_endpoint.runner IS 'The process that is delivering to it; null while nobody is.';
COMMENT ON COLUMN webhook_endpoint.failures IS 'Tries that failed since the last one that succeeded; failing_since is the first of them.';

CREATE TABLE webhook_secret (
  account_id           text COLLATE "C" NOT NULL,
  livemode             boolean NOT NULL,
  id                   bigint GENERATED ALWAYS AS IDENTITY,
  webhook_endpoint_id  text COLLATE "C" NOT NULL,
  secret               text NOT NULL,
  expires_at           timestamptz,
  CONSTRAINT webhook_secret_pkey PRIMARY KEY (account_id, livemode, webhook_endpoint_id, id),
  CONSTRAINT webhook_secret_endpoint_fkey FOREIGN KEY (account_id, livemode, webhook_endpoint_id) REFERENCES webhook_endpoint ON DELETE CASCADE
);
CREATE UNIQUE INDEX webhook_secret_current_once ON webhook_secret (webhook_endpoint_id, account_id, livemode) WHERE expires_at IS NULL;
COMMENT ON TABLE webhook_secret IS 'What deliveries are signed with: the current secret, and rolled ones until they expire. Requests write them and never read them.';

CREATE TABLE webhook_delivery (
  account_id           text COLLATE "C" NOT NULL,
  livemode             boolean NOT NULL,
  id                   text COLLATE "C" NOT NULL,
  seq                  bigint GENERATED ALWAYS AS IDENTITY,
  event_id             text COLLATE "C" NOT NULL,
  webhook_endpoint_id  text COLLATE "C" NOT NULL,
  object_id            text COLLATE "C" NOT NULL,
  once                 boolean NOT NULL DEFAULT false,
  status               text NOT NULL DEFAULT 'pending',
  attempt              smallint NOT NULL DEFAULT 0,
  due_at               timestamptz,
  response_status      smallint,
  response_body        text,
  failure_reason       text,
  duration_ms          integer,
  created_at           timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT webhook_delivery_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT webhook_delivery_event_fkey FOREIGN KEY (account_id, livemode, event_id) REFERENCES event ON DELETE CASCADE,
  CONSTRAINT webhook_delivery_status_known CHECK (status IN ('pending', 'succeeded', 'failed')),
  CONSTRAINT webhook_delivery_retry_is_dated CHECK (due_at IS NULL OR status = 'pending' AND attempt > 0)
) WITH (fillfactor = 80);
CREATE INDEX webhook_delivery_event ON webhook_delivery (event_id, account_id, livemode, id);
-- What is to be sent, endpoint by endpoint: what was never tried in order of creation, then retries as they fall due.
CREATE INDEX webhook_delivery_waiting ON webhook_delivery (webhook_endpoint_id, due_at NULLS FIRST, seq, account_id, livemode) WHERE status = 'pending' AND NOT once;
COMMENT ON TABLE webhook_delivery IS 'An event on its way to a webhook endpoint: written with the event, tried until it arrives (machines/delivery.ts).';
COMMENT ON COLUMN webhook_delivery.seq IS 'Order of creation: of one object it is that of its changes, since they happen under its lock.';
COMMENT ON COLUMN webhook_delivery.due_at IS 'When it is tried again; null: never tried, so due at once, or not tried any more.';
COMMENT ON COLUMN webhook_delivery.once IS 'A test by hand: whoever asked for it sends it.';
COMMENT ON COLUMN webhook_delivery.response_body IS 'The first 2 KiB of what the endpoint answered to the last try.';

CREATE FUNCTION event_patterns(type text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ARRAY['*', type, split_part(type, '.', 1) || '.*']
$$;
COMMENT ON FUNCTION event_patterns IS 'What an endpoint can be enabled for to get events of a type.';

-- Kept for 30 days of wall-clock time (decision I5).
CREATE INDEX event_recorded ON event USING brin (recorded_at) WITH (pages_per_range = 32);

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['webhook_endpoint', 'webhook_secret', 'webhook_delivery'] LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format(
      'CREATE POLICY own_rows ON %s TO billing_request USING (account_id = current_setting(''billing.account_id'') AND livemode = current_setting(''billing.livemode'')::boolean)', t);
  END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoint TO billing_request;
GRANT SELECT (account_id, livemode, id, webhook_endpoint_id, expires_at), INSERT, UPDATE (expires_at) ON webhook_secret TO billing_request;
GRANT SELECT, INSERT ON webhook_delivery TO billing_request;
GRANT SELECT ON SEQUENCE webhook_delivery_seq_seq TO billing_request;
