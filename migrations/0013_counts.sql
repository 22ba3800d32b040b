-- Creates the counts of actors by state, and of transitions by arrow (decision R11). src/runtime/counting.ts keeps them from the journal.

ALTER TABLE lifecycle_journal ADD COLUMN xid bigint DEFAULT 0 NOT NULL;
ALTER TABLE lifecycle_journal ALTER COLUMN xid SET DEFAULT (pg_current_xact_id()::text::bigint);
COMMENT ON COLUMN lifecycle_journal.xid IS 'The transaction that wrote the row, in the cluster where it was written. Counting finds by it what a snapshot did not see yet. 0: it was written before counting.';
CREATE INDEX lifecycle_journal_xid ON lifecycle_journal USING brin (xid) WITH (pages_per_range = 32, autosummarize = on);

CREATE TABLE journal_position (
  only_row boolean DEFAULT true NOT NULL,
  snapshot pg_snapshot NOT NULL,
  counted_in text NOT NULL,
  counted_at timestamptz NOT NULL,
  skipped text[] DEFAULT '{}'::text[] NOT NULL,
  CONSTRAINT journal_position_pkey PRIMARY KEY (only_row),
  CONSTRAINT journal_position_only_row CHECK (only_row)
);
COMMENT ON TABLE journal_position IS 'How far the journal is counted: every row that the snapshot sees. Counting locks this row.';
COMMENT ON COLUMN journal_position.counted_in IS 'The database that the snapshot belongs to: in another one (a restored dump) it means nothing, and everything is counted again.';
COMMENT ON COLUMN journal_position.skipped IS 'Accounts of which rows were not counted because the account was moving to another cell. They are counted again if they stay.';
GRANT SELECT ON journal_position TO billing_request;

CREATE TABLE state_counted (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  counted_in text NOT NULL,
  counted_at timestamptz NOT NULL,
  took_ms integer NOT NULL,
  snapshot pg_snapshot,
  CONSTRAINT state_counted_pkey PRIMARY KEY (account_id, livemode),
  CONSTRAINT state_counted_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE state_counted IS 'The accounts and environments whose rows were counted. From then on the counts follow the journal.';
COMMENT ON COLUMN state_counted.counted_in IS 'The database in which it was counted, as in journal_position. An account that arrived from another cell is counted again.';
COMMENT ON COLUMN state_counted.took_ms IS 'How long counting took: a large sandbox is not counted again all the time.';
COMMENT ON COLUMN state_counted.snapshot IS 'What the count saw, until the first counting of the journal after it. Null: the same as journal_position.';

CREATE TABLE state_outdated (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  xid bigint DEFAULT (pg_current_xact_id()::text::bigint) NOT NULL,
  CONSTRAINT state_outdated_pkey PRIMARY KEY (account_id, livemode, xid)
);
COMMENT ON TABLE state_outdated IS 'Accounts and environments in which actors were deleted, with the transaction that deleted them. They are counted again from their rows.';

CREATE TABLE state_count (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  kind text NOT NULL,
  state text NOT NULL,
  actors bigint NOT NULL,
  kobo bigint NOT NULL,
  CONSTRAINT state_count_pkey PRIMARY KEY (account_id, livemode, kind, state)
) WITH (fillfactor=50);
COMMENT ON TABLE state_count IS 'How many actors of a kind are in each state, and their amounts. Actors without a transition and webhook endpoints are not in it: pages count their rows, which are few.';
COMMENT ON COLUMN state_count.kobo IS 'The sum of their amounts: of a subscription the price of a period, of an instalment plan its target.';

CREATE TABLE arrow_count (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  kind text NOT NULL,
  hour timestamptz NOT NULL,
  from_state text NOT NULL,
  to_state text NOT NULL,
  trigger text NOT NULL,
  transitions bigint NOT NULL,
  CONSTRAINT arrow_count_pkey PRIMARY KEY (account_id, livemode, kind, hour, from_state, to_state, trigger)
) WITH (fillfactor=80);
COMMENT ON TABLE arrow_count IS 'How many transitions were recorded in each hour of the last 31 days, by states and trigger.';
COMMENT ON COLUMN arrow_count.hour IS 'The beginning of the hour in which they were recorded; on a test clock they may have happened at another time.';
CREATE INDEX arrow_count_hour ON arrow_count (hour, account_id, livemode);

-- Actors without a transition: no journal row says that they exist.
CREATE INDEX refund_new ON refund (account_id, livemode) WHERE version = 0;
CREATE INDEX test_clock_new ON test_clock (account_id, livemode) WHERE version = 0;

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['state_counted', 'state_outdated', 'state_count', 'arrow_count'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY own_rows ON %I TO billing_request USING ((account_id = current_setting(''billing.account_id'')) AND (livemode = (current_setting(''billing.livemode''))::boolean))', t);
    EXECUTE format('GRANT SELECT ON %I TO billing_request', t);
    EXECUTE format('CREATE TRIGGER account_moving AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_moving_row()', t);
    EXECUTE format('ALTER TABLE %I DISABLE TRIGGER account_moving', t);
  END LOOP;
END $$;

-- Belongs to no database yet: the first counting starts here.
INSERT INTO journal_position (snapshot, counted_in, counted_at) VALUES (pg_current_snapshot(), '', now());
