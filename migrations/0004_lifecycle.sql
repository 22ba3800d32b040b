-- What every lifecycle shares: its journal, its timers, its events.

CREATE TABLE lifecycle_journal (
  account_id       text COLLATE "C" NOT NULL,
  livemode         boolean NOT NULL,
  actor_id         text COLLATE "C" NOT NULL,
  version          integer NOT NULL,
  actor_kind       text NOT NULL,
  at               timestamptz NOT NULL,
  event            jsonb NOT NULL,
  from_state       text NOT NULL,
  to_state         text NOT NULL,
  effects          jsonb NOT NULL,
  machine_version  integer NOT NULL,
  recorded_at      timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT lifecycle_journal_pkey PRIMARY KEY (account_id, livemode, actor_id, version),
  CONSTRAINT lifecycle_journal_kind_known CHECK (actor_kind IN ('subscription', 'charge', 'test_clock'))
);
COMMENT ON TABLE lifecycle_journal IS 'Every transition of every lifecycle. Running the machine over it gives the row: `npm run cli -- journal replay` proves it.';
COMMENT ON COLUMN lifecycle_journal.at IS 'When it happened in the actor''s own clock; recorded_at is when it was written.';

CREATE TABLE timer (
  account_id     text COLLATE "C" NOT NULL,
  livemode       boolean NOT NULL,
  actor_id       text COLLATE "C" NOT NULL,
  name           text NOT NULL,
  actor_kind     text NOT NULL,
  generation     integer NOT NULL,
  due_at         timestamptz NOT NULL,
  rank           smallint NOT NULL,
  event          text NOT NULL,
  test_clock_id  text COLLATE "C",
  CONSTRAINT timer_pkey PRIMARY KEY (account_id, livemode, actor_id, name)
);
CREATE INDEX timer_due ON timer (actor_kind, due_at, rank, actor_id) WHERE test_clock_id IS NULL;
CREATE INDEX timer_due_on_clock ON timer (test_clock_id, account_id, livemode, due_at, rank, actor_id) WHERE test_clock_id IS NOT NULL;
COMMENT ON TABLE timer IS 'What is due when, in the actor''s own clock. A row is one delay of the actor''s machine; firing it sends `event`.';
COMMENT ON COLUMN timer.generation IS 'The version of the actor that set it: a timer set anew is another timer.';
COMMENT ON COLUMN timer.rank IS 'Order of timers that fall on one instant (decision E19).';

CREATE TABLE event (
  account_id  text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode    boolean NOT NULL,
  id          text COLLATE "C" NOT NULL,
  type        text NOT NULL,
  object_id   text COLLATE "C" NOT NULL,
  test_clock_id text COLLATE "C",
  data        text NOT NULL,
  created_at  timestamptz NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT event_pkey PRIMARY KEY (account_id, livemode, id)
);
CREATE INDEX event_type ON event (type, account_id, livemode, id);
CREATE INDEX event_test_clock ON event (test_clock_id, account_id, livemode) WHERE test_clock_id IS NOT NULL;
COMMENT ON TABLE event IS 'What happened, written in the transaction of the change (spec 2.10): the outbox of webhooks and GET /events.';
COMMENT ON COLUMN event.data IS 'The event''s data as JSON text, byte for byte as it is delivered.';

CREATE TABLE idempotency_record (
  account_id       text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode         boolean NOT NULL,
  key              text NOT NULL,
  fingerprint      bytea NOT NULL,
  runner           integer NOT NULL,
  token            text NOT NULL,
  resource_id      text COLLATE "C",
  response_status  integer,
  response_body    text,
  created_at       timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT idempotency_record_pkey PRIMARY KEY (account_id, livemode, key),
  CONSTRAINT idempotency_record_answered CHECK ((response_status IS NULL) = (response_body IS NULL))
);
CREATE INDEX idempotency_record_created ON idempotency_record (created_at);
COMMENT ON TABLE idempotency_record IS 'One per Idempotency-Key, for 24 hours (spec 8). Without a response the request is still being processed by `runner`.';
COMMENT ON COLUMN idempotency_record.fingerprint IS 'SHA-256 of method, path and canonical body.';
COMMENT ON COLUMN idempotency_record.token IS 'Of the try that holds the key now: a try that was taken over can store nothing any more.';
COMMENT ON COLUMN idempotency_record.resource_id IS 'What the request has made so far: a try after a crash finishes it instead of making another.';

CREATE TABLE simulator_attempt (
  account_id         text COLLATE "C" NOT NULL,
  livemode           boolean NOT NULL,
  reference          text COLLATE "C" NOT NULL,
  customer_id        text COLLATE "C" NOT NULL,
  payment_method_id  text COLLATE "C" NOT NULL,
  amount_kobo        bigint NOT NULL,
  attempts           integer NOT NULL,
  outcome            text NOT NULL,
  code               text,
  known_at           timestamptz,
  test_clock_id      text COLLATE "C",
  created_at         timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT simulator_attempt_pkey PRIMARY KEY (account_id, livemode, reference)
);
CREATE INDEX simulator_attempt_test_clock ON simulator_attempt (test_clock_id, account_id, livemode) WHERE test_clock_id IS NOT NULL;
CREATE INDEX simulator_attempt_used ON simulator_attempt (customer_id, payment_method_id, account_id, livemode);
COMMENT ON TABLE simulator_attempt IS 'The simulator rail''s own books: what it was asked to charge, by reference. `attempts` over 1 would be a reference sent twice.';
