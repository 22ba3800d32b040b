-- What goes out: events, webhooks and nudges.

CREATE FUNCTION event_patterns(type text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ARRAY['*', type] || CASE WHEN type LIKE '%.%' THEN ARRAY[split_part(type, '.', 1) || '.*'] ELSE '{}' END
$$;
COMMENT ON FUNCTION event_patterns IS 'What an endpoint can be enabled for to get events of a type.';

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
COMMENT ON TABLE event IS 'What happened, written in the transaction of the change: the outbox of webhooks and GET /events.';
COMMENT ON COLUMN event.data IS 'The event''s data as JSON text, byte for byte as it is delivered.';
CREATE INDEX event_type ON event (type, account_id, livemode, id);
CREATE INDEX event_test_clock ON event (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
-- Events between two instants. By account first, since ranges of all accounts overlap; partial, so that no look-up by
-- primary key takes it for the primary key: only what compares created_at can.
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
COMMENT ON TABLE webhook_endpoint IS 'Where an account wants its events. state and disabled_reason are the snapshot of machines/webhook_endpoint.ts.';
COMMENT ON COLUMN webhook_endpoint.slot IS 'One of 16 places: an account has no more endpoints in an environment (decision I7).';
COMMENT ON COLUMN webhook_endpoint.given_up_to IS 'Deliveries up to this one (webhook_delivery.seq) are not sent any more: the endpoint was disabled after them.';
COMMENT ON COLUMN webhook_endpoint.runner IS 'The process that is delivering to it; null while nobody is.';
COMMENT ON COLUMN webhook_endpoint.failures IS 'Tries that failed since the last one that succeeded; failing_since is the first of them.';
ALTER TABLE webhook_endpoint ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON webhook_endpoint TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoint TO billing_request;

CREATE TABLE webhook_secret (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id bigint GENERATED ALWAYS AS IDENTITY,
  webhook_endpoint_id text COLLATE "C" NOT NULL,
  secret text,
  expires_at timestamptz,
  sealed bytea,
  CONSTRAINT webhook_secret_pkey PRIMARY KEY (account_id, livemode, webhook_endpoint_id, id),
  CONSTRAINT webhook_secret_in_one_form CHECK ((secret IS NULL) <> (sealed IS NULL)),
  CONSTRAINT webhook_secret_endpoint_fkey FOREIGN KEY (account_id, livemode, webhook_endpoint_id) REFERENCES webhook_endpoint ON DELETE CASCADE
);
COMMENT ON TABLE webhook_secret IS 'What deliveries are signed with: the current secret, and rolled ones until they expire. Requests write them and never read them.';
COMMENT ON COLUMN webhook_secret.secret IS 'The secret in the clear, where it was written before secrets were encrypted; null once `cli secrets rotate` has run.';
COMMENT ON COLUMN webhook_secret.sealed IS 'The secret, encrypted under ENCRYPTION_KEY with its account, environment and endpoint as associated data.';
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
COMMENT ON TABLE webhook_delivery IS 'An event on its way to a webhook endpoint: written with the event, tried until it arrives (machines/delivery.ts).';
COMMENT ON COLUMN webhook_delivery.seq IS 'Order of creation: of one object it is that of its changes, since they happen under its lock.';
COMMENT ON COLUMN webhook_delivery.once IS 'A test by hand: whoever asked for it sends it.';
COMMENT ON COLUMN webhook_delivery.due_at IS 'When it is tried again; null: never tried, so due at once, or not tried any more.';
COMMENT ON COLUMN webhook_delivery.response_body IS 'The first 2 KiB of what the endpoint answered to the last try.';
CREATE INDEX webhook_delivery_event ON webhook_delivery (event_id, account_id, livemode, id);
-- What is to be sent, endpoint by endpoint: what was never tried in order of creation, then retries as they fall due.
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
COMMENT ON TABLE nudge IS 'A reminder to one customer: channels to reminder columns of state are the snapshot of machines/nudge.ts. In the sandbox it is its own outbox.';
COMMENT ON COLUMN nudge.reminder_of IS 'Of an automatic reminder: what it is counted from, the next charge or the first failure; with rule and day it is sent once.';
COMMENT ON COLUMN nudge.channels IS 'Channels by which the customer could be reached when it was made, in order of preference; contacts says where.';
COMMENT ON COLUMN nudge.message IS 'The words, without the payment link, which is made from a secret when it is sent.';
COMMENT ON COLUMN nudge.link_token_hash IS 'SHA-256 of the payment link''s token. The link is good for 30 days from created_at.';
COMMENT ON COLUMN nudge.runner IS 'The process that is giving it to a messenger, since taken_at; null while nobody is.';
COMMENT ON COLUMN nudge.announced IS 'The nudge as the newest event about it showed it; null where there is none.';
COMMENT ON COLUMN nudge.message_id IS 'What the messenger that took it last calls it: receipts name it.';
COMMENT ON COLUMN nudge.instalment_plan_id IS 'The instalment plan that it reminds of: its link leads to that plan''s payment page.';
-- At most one for each reminder (decision H4).
CREATE UNIQUE INDEX nudge_reminder_once ON nudge (subscription_id, reminder_of, reminder_rule, reminder_day, account_id, livemode) WHERE reminder_rule IS NOT NULL;
CREATE UNIQUE INDEX nudge_link_once ON nudge (link_token_hash, account_id, livemode) WHERE link_token_hash IS NOT NULL;
CREATE INDEX nudge_customer ON nudge (customer_id, account_id, livemode, id);
CREATE INDEX nudge_subscription ON nudge (subscription_id, account_id, livemode, id) WHERE subscription_id IS NOT NULL;
-- What is to be sent: by channel on the wall clock, by clock otherwise; and what somebody has in hand.
CREATE INDEX nudge_to_send ON nudge (livemode, channel, id) WHERE state = 'sending' AND runner IS NULL AND test_clock_id IS NULL;
CREATE INDEX nudge_to_send_on_clock ON nudge (test_clock_id, id) WHERE state = 'sending' AND test_clock_id IS NOT NULL;
CREATE INDEX nudge_in_hand ON nudge (runner) WHERE state = 'sending' AND runner IS NOT NULL;
-- Receipts name a nudge, or what its messenger called it, and not always whose it is.
CREATE INDEX nudge_receipt ON nudge (id) WHERE livemode;
CREATE INDEX nudge_message ON nudge (message_id) WHERE livemode AND message_id IS NOT NULL;
-- Those that are not to be sent: lest it be taken for the index of the few that are.
CREATE INDEX nudge_test_clock ON nudge (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL AND state <> 'sending';
-- Nudges that a messenger was given: partial for the same reason.
CREATE INDEX nudge_outbox ON nudge (account_id, livemode, id) WHERE attempts <> '[]';
CREATE INDEX nudge_status ON nudge (status, account_id, livemode, id);
CREATE INDEX nudge_channel ON nudge (channel, account_id, livemode, id);
CREATE INDEX nudge_instalment_plan ON nudge (instalment_plan_id, account_id, livemode, id) WHERE instalment_plan_id IS NOT NULL;
CREATE INDEX nudge_channel_status ON nudge (channel, status, account_id, livemode, id);
ALTER TABLE nudge ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON nudge TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON nudge TO billing_request;
