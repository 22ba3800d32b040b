-- Creates what the dashboard needs: members of accounts, sign-ins and sessions, passkeys, the record of activity and the log of API requests
-- (decisions R).

ALTER TABLE owner_email RENAME TO letter;
ALTER TABLE letter RENAME CONSTRAINT owner_email_pkey TO letter_pkey;
ALTER TABLE letter RENAME CONSTRAINT owner_email_account_id_fkey TO letter_account_id_fkey;
ALTER INDEX owner_email_waiting RENAME TO letter_waiting;
ALTER TABLE letter ADD COLUMN is_secret boolean DEFAULT false NOT NULL;
COMMENT ON TABLE letter IS 'E-mails to owners and members of accounts, written in the transaction of their cause. A messenger sends them. Letters to people who belong to no account yet are those of the service''s own account.';
COMMENT ON COLUMN letter.is_secret IS 'Whether it contains a code or a link that signs in. Its subject and body are emptied when it is sent or given up.';

CREATE TABLE member (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  email text COLLATE "C" NOT NULL,
  role text NOT NULL,
  created_at timestamptz NOT NULL,
  invitation_hash bytea,
  invited_until timestamptz,
  joined_at timestamptz,
  removed_at timestamptz,
  CONSTRAINT member_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT member_kept_with_live CHECK (livemode),
  CONSTRAINT member_role_known CHECK (role IN ('owner', 'admin', 'developer', 'finance', 'support')),
  CONSTRAINT member_email_is_lower_case CHECK (email = lower(email) AND length(email) <= 254),
  CONSTRAINT member_invitation_ends CHECK ((invitation_hash IS NULL) = (invited_until IS NULL)),
  CONSTRAINT member_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE member IS 'Members of accounts (decision R2): an e-mail address with a role. A removed member keeps its row, which the journal and the record of activity name.';
COMMENT ON COLUMN member.livemode IS 'Always true: a member belongs to both environments.';
COMMENT ON COLUMN member.invitation_hash IS 'SHA-256 of the token in the link of the invitation; null: it was used or never made.';
COMMENT ON COLUMN member.joined_at IS 'When the member first proved the address; null: only invited.';
CREATE UNIQUE INDEX member_once ON member (email, account_id, livemode) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX member_invitation_once ON member (invitation_hash, account_id, livemode) WHERE invitation_hash IS NOT NULL;
ALTER TABLE member ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON member TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE ON member TO billing_request;

CREATE TABLE sign_in (
  id text COLLATE "C" NOT NULL,
  purpose text NOT NULL,
  email text COLLATE "C",
  business_name text,
  visitor_hash bytea,
  secret_hash bytea,
  network text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  tries smallint DEFAULT 0 NOT NULL,
  used_at timestamptz,
  CONSTRAINT sign_in_pkey PRIMARY KEY (id),
  CONSTRAINT sign_in_purpose_known CHECK (purpose IN ('sign_in', 'sign_up', 'passkey', 'link')),
  CONSTRAINT sign_in_tries_bounded CHECK (tries BETWEEN 0 AND 5)
);
COMMENT ON TABLE sign_in IS 'Sign-ins that were begun and not finished yet: codes sent by e-mail, challenges of passkeys, single-use links. Deleted a day after they end.';
COMMENT ON COLUMN sign_in.visitor_hash IS 'SHA-256 of the cookie of the browser that began it. Only this browser can finish it. Null for links.';
COMMENT ON COLUMN sign_in.secret_hash IS 'SHA-256 of the code with that cookie, or of the token of a link; the challenge of a passkey. Null: nothing finishes it, because the address is unknown (or known, for a sign-up).';
COMMENT ON COLUMN sign_in.network IS 'The network address that began it: codes are limited for each.';
CREATE INDEX sign_in_visitor ON sign_in (visitor_hash, id) WHERE visitor_hash IS NOT NULL;
CREATE UNIQUE INDEX sign_in_link_once ON sign_in (secret_hash) WHERE purpose = 'link';
CREATE INDEX sign_in_email ON sign_in (email, created_at) WHERE email IS NOT NULL;
CREATE INDEX sign_in_network ON sign_in (network, created_at);
CREATE INDEX sign_in_expired ON sign_in (expires_at);

CREATE TABLE dashboard_session (
  hash bytea NOT NULL,
  id text COLLATE "C" NOT NULL,
  email text COLLATE "C" NOT NULL,
  current_account text COLLATE "C" NOT NULL,
  method text NOT NULL,
  network text NOT NULL,
  browser text NOT NULL,
  signed_in_at timestamptz NOT NULL,
  last_used_at timestamptz NOT NULL,
  CONSTRAINT dashboard_session_pkey PRIMARY KEY (hash),
  CONSTRAINT dashboard_session_id_unique UNIQUE (id),
  CONSTRAINT dashboard_session_method_known CHECK (method IN ('code', 'passkey', 'link')),
  CONSTRAINT dashboard_session_browser_bounded CHECK (length(browser) <= 200)
);
COMMENT ON TABLE dashboard_session IS 'Sessions of the dashboard (decision R5). Only the SHA-256 of a cookie is stored. It ends 12 hours after its last use and 30 days after the sign-in.';
COMMENT ON COLUMN dashboard_session.current_account IS 'The account that it shows. A person may be a member of several.';
COMMENT ON COLUMN dashboard_session.last_used_at IS 'Exact to a minute.';
CREATE INDEX dashboard_session_email ON dashboard_session (email);
CREATE INDEX dashboard_session_used ON dashboard_session (last_used_at);

CREATE TABLE passkey (
  id text COLLATE "C" NOT NULL,
  email text COLLATE "C" NOT NULL,
  credential text COLLATE "C" NOT NULL,
  public_key bytea NOT NULL,
  counter bigint NOT NULL,
  transports text[] DEFAULT '{}'::text[] NOT NULL,
  name text NOT NULL,
  created_at timestamptz NOT NULL,
  last_used_at timestamptz,
  CONSTRAINT passkey_pkey PRIMARY KEY (id),
  CONSTRAINT passkey_credential_unique UNIQUE (credential),
  CONSTRAINT passkey_name_bounded CHECK (length(name) BETWEEN 1 AND 100)
);
COMMENT ON TABLE passkey IS 'Passkeys (WebAuthn credentials) by which a person signs in, by e-mail address. A person has at most 20.';
COMMENT ON COLUMN passkey.counter IS 'The signature counter that the authenticator sent last; 0: it has none.';
CREATE INDEX passkey_email ON passkey (email);

CREATE TABLE activity (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  at timestamptz NOT NULL,
  actor_kind text NOT NULL,
  actor_id text,
  actor_name text,
  action text NOT NULL,
  object_kind text,
  object_id text,
  address text,
  request_id text,
  CONSTRAINT activity_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT activity_actor_known CHECK (actor_kind IN ('member', 'key', 'administrator', 'command_line', 'system'))
);
COMMENT ON TABLE activity IS 'The record of who did what to which object (decision R7). Append-only. What concerns the whole account is with its live data.';
COMMENT ON COLUMN activity.actor_id IS 'The ID of the member or of the key.';
COMMENT ON COLUMN activity.actor_name IS 'The member''s e-mail address, the last four characters of the key, or the administrator''s name.';
COMMENT ON COLUMN activity.action IS 'An object and a verb, such as subscription.pause.';
ALTER TABLE activity ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON activity TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT ON activity TO billing_request;

CREATE TABLE api_request (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  at timestamptz NOT NULL,
  method text NOT NULL,
  path text NOT NULL,
  status smallint NOT NULL,
  error_code text,
  key_id text COLLATE "C" NOT NULL,
  key_last4 text NOT NULL,
  duration_us integer NOT NULL,
  is_replay boolean NOT NULL,
  CONSTRAINT api_request_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT api_request_path_bounded CHECK (length(path) <= 300)
);
COMMENT ON TABLE api_request IS 'The log of API requests (decision R12): the last 30 days, at most 1,000,000 of an account and environment. Written in batches after the responses; a process that dies loses those of its last second.';
COMMENT ON COLUMN api_request.path IS 'Without the query.';
COMMENT ON COLUMN api_request.is_replay IS 'Whether the response was the stored one of an earlier request with the same Idempotency-Key.';
CREATE INDEX api_request_failed ON api_request (account_id, livemode, id) WHERE status >= 400;
CREATE INDEX api_request_succeeded ON api_request (account_id, livemode, id) WHERE status < 400;
CREATE INDEX api_request_at ON api_request USING brin (at) WITH (pages_per_range = 32, autosummarize = on);
ALTER TABLE api_request ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON api_request TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT ON api_request TO billing_request;

ALTER TABLE api_key ADD COLUMN attempt text COLLATE "C";
ALTER TABLE api_key ADD CONSTRAINT api_key_attempt_bounded CHECK (length(attempt) <= 64);
COMMENT ON COLUMN api_key.attempt IS 'The form of the dashboard that made the key; null: the command line or the sign-up did. A form that is sent again makes no other key.';
CREATE UNIQUE INDEX api_key_attempt_once ON api_key (attempt, account_id, livemode) WHERE attempt IS NOT NULL;
CREATE INDEX api_key_not_revoked ON api_key (account_id, livemode, id) WHERE revoked_at IS NULL;
-- Members manage keys. Their hashes stay unreadable.
GRANT SELECT (account_id, livemode, id, type, prefix, last4, created_at, expires_at, revoked_at, scopes, origins, last_used_at, cell, attempt),
  INSERT, UPDATE (expires_at, revoked_at) ON api_key TO billing_request;
GRANT UPDATE (business_name, live_access, live_since, rail) ON account TO billing_request;
-- Members replace credentials of rails, and never read them.
GRANT SELECT (account_id, livemode, id, rail, created_at, replaced_at), INSERT, UPDATE (replaced_at) ON rail_credential TO billing_request;
CREATE INDEX charge_rail_id ON charge (rail_id, account_id, livemode, id) WHERE rail_id IS NOT NULL;
COMMENT ON INDEX charge_rail_id IS 'The search of the dashboard, by the number that a payment rail gave to a transaction.';


DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['member', 'activity', 'api_request'] LOOP
    EXECUTE format('CREATE TRIGGER account_moving AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_moving_row()', t);
    EXECUTE format('ALTER TABLE %I DISABLE TRIGGER account_moving', t);
  END LOOP;
END $$;

-- The owners of existing accounts become members.
INSERT INTO member (account_id, livemode, id, email, role, created_at, joined_at)
SELECT id, true, 'mem_' || substr(id, 6), lower(email), 'owner', created_at, created_at FROM account WHERE email IS NOT NULL;

-- Home shows what contradicts the books.
GRANT SELECT ON rail_exception, refund TO billing_request;

-- Finance teams' views of the running tenant's books (decision R8). They check and read for one account and environment only, those of the
-- running request, whatever its statement asks.
CREATE FUNCTION account_rules() RETURNS TABLE (rule text, meaning text, problem text) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp SET enable_seqscan = on SET enable_hashjoin = on AS $$
BEGIN
  PERFORM set_config('billing.account', current_setting('billing.account_id'), true);
  RETURN QUERY
    SELECT r.rule, r.meaning, b.problem FROM finance.rules r LEFT JOIN (
      SELECT x.rule, x.problem FROM finance.breaches x
      WHERE x.account_id = current_setting('billing.account_id') AND x.livemode = current_setting('billing.livemode')::boolean LIMIT 100
    ) b ON b.rule = r.rule ORDER BY r.rule, b.problem;
END $$;
COMMENT ON FUNCTION account_rules IS 'Returns the rules of the books, each with its breaches in the running tenant''s books, or with null.';
REVOKE ALL ON FUNCTION account_rules FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_rules TO billing_request;

CREATE FUNCTION account_entries(most integer) RETURNS integer LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT count(*)::integer FROM (SELECT 1 FROM ledger_entry WHERE account_id = current_setting('billing.account_id') LIMIT most) e
$$;
COMMENT ON FUNCTION account_entries IS 'Counts the entries of the running tenant''s account in both environments, up to a limit.';
REVOKE ALL ON FUNCTION account_entries FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_entries TO billing_request;

CREATE FUNCTION account_suspense() RETURNS TABLE (month date, since date, rail text, reference text, amount_kobo bigint) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
BEGIN
  PERFORM set_config('billing.account', current_setting('billing.account_id'), true);
  RETURN QUERY
    SELECT s.month, s.since, s.rail, s.reference, s.amount_kobo FROM finance.suspense s
    WHERE s.account_id = current_setting('billing.account_id') AND s.livemode = current_setting('billing.livemode')::boolean
    ORDER BY s.since, s.reference LIMIT 200;
END $$;
COMMENT ON FUNCTION account_suspense IS 'Returns what is in suspense in the running tenant''s books, the oldest first.';
REVOKE ALL ON FUNCTION account_suspense FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_suspense TO billing_request;

CREATE TABLE settlement_import (
  account_id text COLLATE "C" NOT NULL,
  livemode boolean NOT NULL,
  id text COLLATE "C" NOT NULL,
  rail text NOT NULL,
  file_name text NOT NULL,
  sha256 text NOT NULL,
  file bytea,
  uploaded_at timestamptz NOT NULL,
  uploaded_by text NOT NULL,
  booked_at timestamptz,
  rows integer NOT NULL,
  matched integer NOT NULL,
  booked integer NOT NULL,
  fees_kobo bigint NOT NULL,
  payouts_kobo bigint NOT NULL,
  unmatched_count integer NOT NULL,
  unmatched jsonb NOT NULL,
  CONSTRAINT settlement_import_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT settlement_import_rail_known CHECK (rail IN ('simulator', 'paystack', 'flutterwave')),
  CONSTRAINT settlement_import_bounded CHECK (length(file_name) <= 200 AND octet_length(file) <= 10485760 AND octet_length(unmatched::text) <= 200000),
  CONSTRAINT settlement_import_file_until_booked CHECK ((file IS NULL) = (booked_at IS NOT NULL)),
  CONSTRAINT settlement_import_account_id_fkey FOREIGN KEY (account_id) REFERENCES account(id)
);
COMMENT ON TABLE settlement_import IS 'Settlement files of rails that members uploaded: the results of booked ones, and at most one that waits to be confirmed.';
COMMENT ON COLUMN settlement_import.file IS 'The file until it is booked. Its SHA-256 stays.';
COMMENT ON COLUMN settlement_import.booked IS 'The number of entries that it makes, or has made.';
COMMENT ON COLUMN settlement_import.unmatched IS 'The first rows and payments that do not match.';
CREATE UNIQUE INDEX settlement_import_waiting_once ON settlement_import (account_id, livemode) WHERE booked_at IS NULL;
ALTER TABLE settlement_import ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON settlement_import TO billing_request USING ((account_id = current_setting('billing.account_id')) AND (livemode = (current_setting('billing.livemode'))::boolean));
GRANT SELECT, INSERT, UPDATE, DELETE ON settlement_import TO billing_request;
CREATE TRIGGER account_moving AFTER INSERT OR UPDATE OR DELETE ON settlement_import FOR EACH ROW EXECUTE FUNCTION refuse_moving_row();
ALTER TABLE settlement_import DISABLE TRIGGER account_moving;
