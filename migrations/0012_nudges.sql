-- Nudges: reminders on their way to customers, by WhatsApp, SMS and e-mail.

ALTER TABLE lifecycle_journal DROP CONSTRAINT lifecycle_journal_kind_known;
ALTER TABLE lifecycle_journal ADD CONSTRAINT lifecycle_journal_kind_known CHECK (actor_kind IN ('subscription', 'charge', 'test_clock', 'invoice', 'webhook_endpoint', 'nudge'));

CREATE TABLE nudge (
  account_id         text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode           boolean NOT NULL,
  id                 text COLLATE "C" NOT NULL,
  customer_id        text COLLATE "C" NOT NULL,
  subscription_id    text COLLATE "C",
  test_clock_id      text COLLATE "C",
  source             text NOT NULL,
  template           text NOT NULL,
  reminder_rule      text,
  reminder_day       smallint,
  reminder_of        timestamptz,
  state              text NOT NULL,
  status             text NOT NULL,
  version            integer NOT NULL,
  channels           text[] NOT NULL,
  contacts           jsonb NOT NULL,
  channel            text NOT NULL,
  position           smallint NOT NULL,
  tries              smallint NOT NULL,
  attempts           jsonb NOT NULL,
  message            jsonb NOT NULL,
  link_token_hash    text,
  sender             integer,
  taken_at           timestamptz,
  told               jsonb,
  message_id         text,
  send_at            timestamptz,
  sent_at            timestamptz,
  delivered_at       timestamptz,
  receipt_at         timestamptz,
  failure_reason     text,
  counts             boolean NOT NULL,
  billed_as_overage  boolean NOT NULL DEFAULT false,
  created_at         timestamptz NOT NULL,
  CONSTRAINT nudge_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT nudge_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT nudge_subscription_fkey FOREIGN KEY (account_id, livemode, subscription_id) REFERENCES subscription,
  CONSTRAINT nudge_source_known CHECK (source IN ('automatic', 'api', 'dashboard')),
  CONSTRAINT nudge_template_known CHECK (template IN ('payment_due', 'payment_failed', 'update_payment_method', 'service_paused', 'custom')),
  CONSTRAINT nudge_status_known CHECK (status IN ('queued', 'sent', 'delivered', 'failed')),
  CONSTRAINT nudge_channels_known CHECK (channels <@ ARRAY['whatsapp', 'sms', 'email'] AND channel IN ('whatsapp', 'sms', 'email')),
  CONSTRAINT nudge_reminder_whole CHECK ((reminder_rule IS NULL) = (reminder_day IS NULL) AND (reminder_rule IS NULL) = (reminder_of IS NULL)),
  CONSTRAINT nudge_reminder_rule_known CHECK (reminder_rule IS NULL OR reminder_rule IN ('pre_due', 'post_due') AND subscription_id IS NOT NULL),
  CONSTRAINT nudge_sent_is_dated CHECK ((status IN ('sent', 'delivered')) <= (sent_at IS NOT NULL) AND (status = 'delivered') = (delivered_at IS NOT NULL)),
  CONSTRAINT nudge_counts_once_sent CHECK (NOT counts OR sent_at IS NOT NULL),
  CONSTRAINT nudge_overage_counts CHECK (NOT billed_as_overage OR counts AND livemode),
  CONSTRAINT nudge_reaches_somebody CHECK (channels <> '{}' OR status = 'failed')
) WITH (fillfactor = 80);
-- At most one for each reminder (decision H4).
CREATE UNIQUE INDEX nudge_reminder_once ON nudge (subscription_id, reminder_of, reminder_rule, reminder_day, account_id, livemode) WHERE reminder_rule IS NOT NULL;
CREATE UNIQUE INDEX nudge_link_once ON nudge (link_token_hash, account_id, livemode) WHERE link_token_hash IS NOT NULL;
CREATE INDEX nudge_customer ON nudge (customer_id, account_id, livemode, id);
CREATE INDEX nudge_subscription ON nudge (subscription_id, account_id, livemode, id) WHERE subscription_id IS NOT NULL;
-- What is to be sent: by channel on the wall clock, by clock otherwise; and what somebody has in hand.
CREATE INDEX nudge_to_send ON nudge (livemode, channel, id) WHERE state = 'sending' AND sender IS NULL AND test_clock_id IS NULL;
CREATE INDEX nudge_to_send_on_clock ON nudge (test_clock_id, id) WHERE state = 'sending' AND test_clock_id IS NOT NULL;
CREATE INDEX nudge_in_hand ON nudge (sender) WHERE state = 'sending' AND sender IS NOT NULL;
-- Receipts name a nudge, or what its messenger called it, and not always whose it is.
CREATE INDEX nudge_receipt ON nudge (id) WHERE livemode;
CREATE INDEX nudge_message ON nudge (message_id) WHERE livemode AND message_id IS NOT NULL;
COMMENT ON TABLE nudge IS 'A reminder to one customer (spec 2.8): channels to reminder columns of state are the snapshot of machines/nudge.ts. In the sandbox it is its own outbox.';
COMMENT ON COLUMN nudge.reminder_of IS 'Of an automatic reminder: what it is counted from, the next charge or the first failure; with rule and day it is sent once.';
COMMENT ON COLUMN nudge.channels IS 'Channels by which the customer could be reached when it was made, in order of preference; contacts says where.';
COMMENT ON COLUMN nudge.message IS 'The words, without the payment link, which is made from a secret when it is sent.';
COMMENT ON COLUMN nudge.link_token_hash IS 'SHA-256 of the payment link''s token. The link is good for 30 days from created_at.';
COMMENT ON COLUMN nudge.sender IS 'The process that is giving it to a messenger, since taken_at; null while nobody is.';
COMMENT ON COLUMN nudge.told IS 'The nudge as the newest event about it showed it; null where there is none.';
COMMENT ON COLUMN nudge.message_id IS 'What the messenger that took it last calls it: receipts name it.';

-- Mail to accounts' owners is tried again later and later, and given up where the address is refused.
ALTER TABLE owner_email ADD COLUMN tries smallint NOT NULL DEFAULT 0, ADD COLUMN next_try_at timestamptz NOT NULL DEFAULT now(), ADD COLUMN failure_reason text;
DROP INDEX owner_email_waiting;
CREATE INDEX owner_email_waiting ON owner_email (next_try_at) WHERE sent_at IS NULL AND failure_reason IS NULL;

-- Plans whose subscriptions are to be planned anew (src/subscription/reminding.ts): up to which of them that is done.
ALTER TABLE plan ADD COLUMN reminders_planned_to text COLLATE "C";
CREATE INDEX plan_reminders_changed ON plan (id) WHERE reminders_planned_to IS NOT NULL;
COMMENT ON COLUMN plan.reminders_planned_to IS 'While the rules for reminders have changed: the last subscription on the wall clock that follows them; null otherwise.';

ALTER TABLE nudge ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON nudge TO billing_request
  USING (account_id = current_setting('billing.account_id') AND livemode = current_setting('billing.livemode')::boolean);
GRANT SELECT, INSERT, UPDATE, DELETE ON nudge TO billing_request;
