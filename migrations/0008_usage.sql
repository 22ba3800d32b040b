-- What accounts use of the service: counted with each write, kept by calendar month.

CREATE TABLE usage_counter (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  period_start_at  timestamptz NOT NULL,
  write_requests   bigint NOT NULL DEFAULT 0,
  read_requests    bigint NOT NULL DEFAULT 0,
  nudges           bigint NOT NULL DEFAULT 0,
  write_threshold  smallint NOT NULL DEFAULT 0,
  nudge_threshold  smallint NOT NULL DEFAULT 0,
  updated_at       timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT usage_counter_pkey PRIMARY KEY (account_id, livemode, period_start_at),
  CONSTRAINT usage_counter_live_only CHECK (livemode),
  CONSTRAINT usage_counter_counts CHECK (write_requests >= 0 AND read_requests >= 0 AND nudges >= 0),
  CONSTRAINT usage_counter_thresholds_known CHECK (write_threshold IN (0, 80, 100) AND nudge_threshold IN (0, 80, 100))
) WITH (fillfactor = 50);
COMMENT ON TABLE usage_counter IS 'What an account has used in a calendar month (decision K1). Writes are counted in the transaction of the write: exact, and without gaps.';
COMMENT ON COLUMN usage_counter.write_threshold IS 'The highest percentage of the allowance that was announced: each is announced once (decision K3).';

CREATE TABLE account_plan_change (
  account_id     text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode       boolean NOT NULL,
  id             text COLLATE "C" NOT NULL,
  previous_plan  text NOT NULL,
  new_plan       text NOT NULL,
  created_at     timestamptz NOT NULL,
  CONSTRAINT account_plan_change_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT account_plan_change_live_only CHECK (livemode)
);
COMMENT ON TABLE account_plan_change IS 'When an account went from one API plan to another: invoices charge each for its share of the month (decision K4).';

CREATE TABLE owner_email (
  account_id  text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode    boolean NOT NULL,
  id          text COLLATE "C" NOT NULL,
  recipient   text NOT NULL,
  subject     text NOT NULL,
  body        text NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  sent_at     timestamptz,
  CONSTRAINT owner_email_pkey PRIMARY KEY (account_id, livemode, id)
);
CREATE INDEX owner_email_waiting ON owner_email (created_at) WHERE sent_at IS NULL;
COMMENT ON TABLE owner_email IS 'E-mails to account owners, written in the transaction of what they tell of, for a messenger to send.';
