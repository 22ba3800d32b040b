-- Live rails: credentials, the calls that are made to them, what callbacks say, refunds, exceptions.

ALTER TABLE account ADD COLUMN rail text NOT NULL DEFAULT 'simulator';
ALTER TABLE account ADD CONSTRAINT account_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave'));
COMMENT ON COLUMN account.rail IS 'Where new payment methods come from in live (decision P4); the sandbox always has the simulator.';

CREATE TABLE rail_credential (
  account_id   text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode     boolean NOT NULL,
  id           text COLLATE "C" NOT NULL,
  rail         text NOT NULL,
  sealed       bytea NOT NULL,
  created_at   timestamptz NOT NULL,
  replaced_at  timestamptz,
  CONSTRAINT rail_credential_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT rail_credential_rail_known CHECK (rail IN ('paystack', 'flutterwave')),
  CONSTRAINT rail_credential_live CHECK (livemode),
  CONSTRAINT rail_credential_bounded CHECK (octet_length(sealed) <= 8192)
);
CREATE UNIQUE INDEX rail_credential_current ON rail_credential (rail, account_id, livemode) WHERE replaced_at IS NULL;
COMMENT ON TABLE rail_credential IS 'What an account''s rails are called with (decisions P1, P2). Replaced ones are kept for as long as callbacks may be signed with them.';
COMMENT ON COLUMN rail_credential.sealed IS 'The credentials as JSON, encrypted under ENCRYPTION_KEY with account, rail and ID as associated data.';
ALTER TABLE rail_credential ENABLE ROW LEVEL SECURITY;

CREATE TABLE rail_callback (
  account_id   text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode     boolean NOT NULL,
  rail         text NOT NULL,
  reference    text COLLATE "C" NOT NULL,
  received_at  timestamptz NOT NULL,
  CONSTRAINT rail_callback_pkey PRIMARY KEY (account_id, livemode, rail, reference),
  CONSTRAINT rail_callback_rail_known CHECK (rail IN ('paystack', 'flutterwave')),
  CONSTRAINT rail_callback_bounded CHECK (octet_length(reference) <= 200)
);
COMMENT ON TABLE rail_callback IS 'References that callbacks named and that nobody has looked into yet (decision P13). Whoever does takes the row away.';
ALTER TABLE rail_callback ENABLE ROW LEVEL SECURITY;
