-- Creates events, webhooks and nudges.

CREATE FUNCTION event_patterns(type text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ARRAY['*', type] || CASE WHEN type LIKE '%.%' THEN ARRAY[split_part(type, '.', 1) || '.*'] ELSE '{}' END
$$;
COMMENT ON FUNCTION event_patterns IS 'The values of enabled_events that include events of a type.';

CREATE TABLE event (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  type text NOT NULL,
  object_id text COLLATE "C" NOT NULL,
  test_clock_id text COLLATE "C",
  data text NOT NULL,
  created_at timestamptz NOT NULL,
  recorded_at timestamptz DEFAULT now() NOT NULL,
  CONSTRAINT event_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT event_data_bounded CHECK (octet_length(data) <= 64512)
) WITH (autovacuum_vacuum_scale_factor=0.01);
COMMENT ON TABLE event IS 'Events, written in the transaction of the change: the outbox of webhooks and of GET /events.';
COMMENT ON COLUMN event.data IS 'The event''s data as JSON text, exactly as it is delivered.';
CREATE INDEX event_type ON event (type, account_id, livemode, id);
CREATE INDEX event_test_clock ON event (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
-- For events between two instants. Starts with the account, because the ranges of accounts overlap. Partial, so that a look-up by
-- primary key cannot use it: only queries that compare created_at can.
CREATE INDEX event_created ON event (account_id, livemode, created_at, id) INCLUDE (type) WHERE created_at IS NOT NULL;
ALTER TABLE event ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON event TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON event TO billing_request;

CREATE TABLE webhook_endpoint (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  slot smallint NOT NULL,
  url text NOT NULL,
  description text,
  enabled_events text[] NOT NULL,
  state text NOT NULL,
  version integer NOT NULL,
  disabled_reason text,
  given_up_to bigint DEFAULT 0 NOT NULL,
  runner integer,
  failures integer DEFAULT 0 NOT NULL,
  failing_since timestamptz,
  created_at timestamptz NOT NULL,
  CONSTRAINT webhook_endpoint_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT webhook_endpoint_slot_taken_once UNIQUE (account_id, livemode, slot),
  CONSTRAINT webhook_endpoint_slot_known CHECK (slot BETWEEN 1 AND 16),
  CONSTRAINT webhook_endpoint_state_known CHECK (state IN ('enabled', 'disabled')),
  CONSTRAINT webhook_endpoint_reason_known CHECK (disabled_reason IS NULL OR disabled_reason IN ('endpoint_gone', 'repeated_failures') AND state = 'disabled'),
  CONSTRAINT webhook_endpoint_failing_is_dated CHECK ((failures > 0) = (failing_since IS NOT NULL)),
  CONSTRAINT webhook_endpoint_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
) WITH (fillfactor=50);
COMMENT ON TABLE webhook_endpoint IS 'Webhook endpoints of accounts. state and disabled_reason are the snapshot of machines/webhook_endpoint.ts.';
COMMENT ON COLUMN webhook_endpoint.slot IS 'One of 16 slots: an account has at most 16 endpoints in an environment (decision I7).';
COMMENT ON COLUMN webhook_endpoint.given_up_to IS 'Deliveries up to this webhook_delivery.seq are no longer sent: the endpoint was disabled after them.';
COMMENT ON COLUMN webhook_endpoint.runner IS 'The process that delivers to it; null: none.';
COMMENT ON COLUMN webhook_endpoint.failures IS 'Failed tries since the last success. failing_since is the time of the first.';
ALTER TABLE webhook_endpoint ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON webhook_endpoint TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoint TO billing_request;

CREATE TABLE webhook_secret (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id bigint GENERATED ALWAYS AS IDENTITY,
  webhook_endpoint_id text COLLATE "C" NOT NULL,
  expires_at timestamptz,
  sealed bytea NOT NULL,
  CONSTRAINT webhook_secret_pkey PRIMARY KEY (account_id, livemode, webhook_endpoint_id, id),
  CONSTRAINT webhook_secret_endpoint_fkey FOREIGN KEY (account_id, livemode, webhook_endpoint_id) REFERENCES webhook_endpoint ON DELETE CASCADE
);
COMMENT ON TABLE webhook_secret IS 'Secrets that sign deliveries: the current one, and rolled ones until they expire. Requests write them and never read them.';
COMMENT ON COLUMN webhook_secret.sealed IS 'The secret, encrypted with ENCRYPTION_KEY; account, environment and endpoint are the associated data.';
CREATE UNIQUE INDEX webhook_secret_current_once ON webhook_secret (webhook_endpoint_id, account_id, livemode) WHERE expires_at IS NULL;
ALTER TABLE webhook_secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON webhook_secret TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT INSERT, SELECT (account_id, livemode, id, webhook_endpoint_id, expires_at), UPDATE (expires_at) ON webhook_secret TO billing_request;

CREATE TABLE webhook_delivery (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  event_id text COLLATE "C" NOT NULL,
  webhook_endpoint_id text COLLATE "C" NOT NULL,
  object_id text COLLATE "C" NOT NULL,
  once boolean DEFAULT false NOT NULL,
  status text DEFAULT 'pending'::text NOT NULL,
  attempt smallint DEFAULT 0 NOT NULL,
  due_at timestamptz,
  response_status smallint,
  response_body text,
  failure_reason text,
  duration_ms integer,
  created_at timestamptz DEFAULT now() NOT NULL,
  CONSTRAINT webhook_delivery_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT webhook_delivery_status_known CHECK (status IN ('pending', 'succeeded', 'failed')),
  CONSTRAINT webhook_delivery_retry_is_dated CHECK (due_at IS NULL OR status = 'pending' AND attempt > 0),
  CONSTRAINT webhook_delivery_event_fkey FOREIGN KEY (account_id, livemode, event_id) REFERENCES event ON DELETE CASCADE
) WITH (fillfactor=80);
COMMENT ON TABLE webhook_delivery IS 'Deliveries of events to webhook endpoints: written with the event, retried until they succeed or are given up (machines/delivery.ts).';
COMMENT ON COLUMN webhook_delivery.seq IS 'The order of creation. For one object it is the order of its changes, because each change locks the object.';
COMMENT ON COLUMN webhook_delivery.once IS 'A manual test, sent by the request that created it.';
COMMENT ON COLUMN webhook_delivery.due_at IS 'When it is retried; null: not tried yet, so due immediately, or finished.';
COMMENT ON COLUMN webhook_delivery.response_body IS 'The first 2 KiB of the endpoint''s response to the last try.';
CREATE INDEX webhook_delivery_event ON webhook_delivery (event_id, account_id, livemode, id);
-- Deliveries to send, by endpoint: first those not tried yet in order of creation, then retries by due time.
CREATE INDEX webhook_delivery_waiting ON webhook_delivery (webhook_endpoint_id, due_at NULLS FIRST, seq, account_id, livemode) WHERE status = 'pending' AND NOT once;
ALTER TABLE webhook_delivery ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON webhook_delivery TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON webhook_delivery TO billing_request;
GRANT SELECT ON SEQUENCE webhook_delivery_seq_seq TO billing_request;

CREATE TABLE nudge (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  customer_id text COLLATE "C" NOT NULL,
  subscription_id text COLLATE "C",
  test_clock_id text COLLATE "C",
  source text NOT NULL,
  template text NOT NULL,
  reminder_rule text,
  reminder_day smallint,
  reminder_of timestamptz,
  state text NOT NULL,
  status text NOT NULL,
  version integer NOT NULL,
  channels text[] NOT NULL,
  contacts jsonb NOT NULL,
  channel text NOT NULL,
  position smallint NOT NULL,
  tries smallint NOT NULL,
  attempts jsonb NOT NULL,
  message jsonb NOT NULL,
  link_token_hash text,
  runner integer,
  taken_at timestamptz,
  announced jsonb,
  message_id text,
  send_at timestamptz,
  sent_at timestamptz,
  delivered_at timestamptz,
  receipt_at timestamptz,
  failure_reason text,
  counts boolean NOT NULL,
  billed_as_overage boolean DEFAULT false NOT NULL,
  created_at timestamptz NOT NULL,
  instalment_plan_id text COLLATE "C",
  CONSTRAINT nudge_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT nudge_source_known CHECK (source IN ('automatic', 'api', 'dashboard')),
  CONSTRAINT nudge_template_known CHECK (template IN ('payment_due', 'payment_failed', 'update_payment_method', 'service_paused', 'custom')),
  CONSTRAINT nudge_status_known CHECK (status IN ('queued', 'sent', 'delivered', 'failed')),
  CONSTRAINT nudge_channels_known CHECK (channels <@ ARRAY['whatsapp', 'sms', 'email'] AND channel IN ('whatsapp', 'sms', 'email')),
  CONSTRAINT nudge_reminder_whole CHECK ((reminder_rule IS NULL) = (reminder_day IS NULL) AND (reminder_rule IS NULL) = (reminder_of IS NULL)),
  CONSTRAINT nudge_sent_is_dated CHECK ((status IN ('sent', 'delivered')) <= (sent_at IS NOT NULL) AND (status = 'delivered') = (delivered_at IS NOT NULL)),
  CONSTRAINT nudge_counts_once_sent CHECK (NOT counts OR sent_at IS NOT NULL),
  CONSTRAINT nudge_overage_counts CHECK (NOT billed_as_overage OR counts AND livemode),
  CONSTRAINT nudge_reaches_somebody CHECK (channels <> '{}' OR status = 'failed'),
  CONSTRAINT nudge_reminder_rule_known CHECK (reminder_rule IS NULL OR reminder_rule IN ('pre_due', 'post_due') AND num_nonnulls(subscription_id, instalment_plan_id) = 1),
  CONSTRAINT nudge_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id),
  CONSTRAINT nudge_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT nudge_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription
) WITH (fillfactor=80);
COMMENT ON TABLE nudge IS 'Reminders to customers. The columns of state and of the channels are the snapshot of machines/nudge.ts. In the sandbox the table is also the outbox.';
COMMENT ON COLUMN nudge.reminder_of IS 'Of an automatic reminder: the instant from which its day is counted, the next charge or the first failure. Sent once for this instant, rule and day.';
COMMENT ON COLUMN nudge.channels IS 'The channels of the customer at creation, in order of preference. contacts has the addresses.';
COMMENT ON COLUMN nudge.message IS 'The text without the payment link, which is made from a secret at sending.';
COMMENT ON COLUMN nudge.link_token_hash IS 'SHA-256 of the payment link''s token. The link is valid for 30 days from created_at.';
COMMENT ON COLUMN nudge.runner IS 'The process that sends it to a messenger, since taken_at; null: none.';
COMMENT ON COLUMN nudge.announced IS 'The nudge in the newest event about it; null: no event yet.';
COMMENT ON COLUMN nudge.message_id IS 'The ID of the message at the messenger that last accepted it. Receipts name it.';
COMMENT ON COLUMN nudge.instalment_plan_id IS 'The instalment plan of the reminder. The link leads to its payment page.';
-- Each reminder is sent at most once (decision H4).
CREATE UNIQUE INDEX nudge_reminder_once ON nudge (subscription_id, reminder_of, reminder_rule, reminder_day, account_id, livemode) WHERE reminder_rule IS NOT NULL;
CREATE UNIQUE INDEX nudge_link_once ON nudge (link_token_hash, account_id, livemode) WHERE link_token_hash IS NOT NULL;
CREATE INDEX nudge_customer ON nudge (customer_id, account_id, livemode, id);
CREATE INDEX nudge_subscription ON nudge (subscription_id, account_id, livemode, id) WHERE subscription_id IS NOT NULL;
-- Nudges to send: by channel on the wall clock, else by test clock; and nudges that a process is sending.
CREATE INDEX nudge_to_send ON nudge (livemode, channel, id) WHERE state = 'sending' AND runner IS NULL AND test_clock_id IS NULL;
CREATE INDEX nudge_to_send_on_clock ON nudge (test_clock_id, id) WHERE state = 'sending' AND test_clock_id IS NOT NULL;
CREATE INDEX nudge_in_hand ON nudge (runner) WHERE state = 'sending' AND runner IS NOT NULL;
-- A receipt names a nudge, or its message ID, but not always the account.
CREATE INDEX nudge_receipt ON nudge (id) WHERE livemode;
CREATE INDEX nudge_message ON nudge (message_id) WHERE livemode AND message_id IS NOT NULL;
-- Partial, so that the planner does not use it instead of the small index of nudges to send.
CREATE INDEX nudge_test_clock ON nudge (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL AND state <> 'sending';
-- Nudges that were passed to a messenger. Partial for the same reason.
CREATE INDEX nudge_outbox ON nudge (account_id, livemode, id) WHERE attempts <> '[]';
CREATE INDEX nudge_status ON nudge (status, account_id, livemode, id);
CREATE INDEX nudge_channel ON nudge (channel, account_id, livemode, id);
CREATE INDEX nudge_instalment_plan ON nudge (instalment_plan_id, account_id, livemode, id) WHERE instalment_plan_id IS NOT NULL;
CREATE INDEX nudge_channel_status ON nudge (channel, status, account_id, livemode, id);
ALTER TABLE nudge ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON nudge TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON nudge TO billing_request;
