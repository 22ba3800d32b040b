-- Save to buy: products that are paid for in instalments, and buyers' plans for them (decisions L1 to L9).

ALTER TABLE lifecycle_journal DROP CONSTRAINT lifecycle_journal_kind_known;
ALTER TABLE lifecycle_journal ADD CONSTRAINT lifecycle_journal_kind_known CHECK (actor_kind IN
  ('subscription', 'charge', 'test_clock', 'invoice', 'webhook_endpoint', 'nudge', 'checkout_session', 'refund', 'instalment_plan'));

CREATE TABLE instalment_product (
  account_id           text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode             boolean NOT NULL,
  id                   text COLLATE "C" NOT NULL,
  name                 text NOT NULL,
  description          text,
  price_kobo           bigint NOT NULL,
  image                text,
  cycle_months         integer NOT NULL,
  mode                 text NOT NULL,
  allowed_frequencies  text[] NOT NULL,
  slots_total          integer,
  slots_used           integer NOT NULL,
  family_id            text,
  late_fee_kobo        bigint NOT NULL,
  refund_window_days   integer NOT NULL,
  is_active            boolean NOT NULL,
  views                bigint NOT NULL,
  created_at           timestamptz NOT NULL,
  updated_at           timestamptz NOT NULL,
  CONSTRAINT instalment_product_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT instalment_product_mode_known CHECK (mode IN ('fixed', 'flexible')),
  CONSTRAINT instalment_product_frequencies_known CHECK (allowed_frequencies <@ ARRAY['daily', 'weekly', 'biweekly', 'monthly'] AND (mode = 'flexible' OR cardinality(allowed_frequencies) > 0)),
  CONSTRAINT instalment_product_cycle_in_range CHECK (cycle_months BETWEEN 1 AND 24),
  CONSTRAINT instalment_product_price_in_range CHECK (price_kobo BETWEEN 20000 AND 99999999900 AND price_kobo % 100 = 0),
  CONSTRAINT instalment_product_fee_in_range CHECK (late_fee_kobo BETWEEN 0 AND 99999999900 AND late_fee_kobo % 100 = 0),
  CONSTRAINT instalment_product_never_oversold CHECK (slots_used BETWEEN 0 AND coalesce(slots_total, slots_used))
) WITH (fillfactor = 80);
COMMENT ON TABLE instalment_product IS 'What merchants sell in instalments. Amounts are whole naira, kept as kobo.';
COMMENT ON COLUMN instalment_product.slots_used IS 'Plans that are not cancelled: kept by a trigger of instalment_plan. A product that is full takes none.';
COMMENT ON COLUMN instalment_product.views IS 'How often its public address was asked for; written every few seconds.';

CREATE TABLE instalment_plan (
  account_id             text COLLATE "C" NOT NULL REFERENCES account (id),
  livemode               boolean NOT NULL,
  id                     text COLLATE "C" NOT NULL,
  product_id             text COLLATE "C" NOT NULL,
  product_name           text NOT NULL,
  product_image          text,
  customer_id            text COLLATE "C" NOT NULL,
  test_clock_id          text COLLATE "C",
  token_hash             text NOT NULL,
  state                  text NOT NULL,
  status                 text NOT NULL,
  version                integer NOT NULL,
  mode                   text NOT NULL,
  frequency              text,
  target_kobo            bigint NOT NULL,
  late_fee_kobo          bigint NOT NULL,
  refund_window_days     integer NOT NULL,
  instalments            jsonb NOT NULL,
  deadline_at            timestamptz NOT NULL,
  paid_kobo              bigint NOT NULL,
  fees_paid_kobo         bigint NOT NULL,
  pending_fee_kobo       bigint NOT NULL,
  missed_kobo            bigint NOT NULL,
  payments               integer NOT NULL,
  paying_charge_id       text COLLATE "C",
  charge_id              text COLLATE "C",
  charge_settled_at      timestamptz,
  reminded_at            timestamptz NOT NULL,
  completed_at           timestamptz,
  shipped_at             timestamptz,
  delivered_at           timestamptz,
  refund_window_ends_at  timestamptz,
  cancelled_at           timestamptz,
  created_at             timestamptz NOT NULL,
  created_no             bigint GENERATED ALWAYS AS IDENTITY,
  CONSTRAINT instalment_plan_pkey PRIMARY KEY (account_id, livemode, id),
  CONSTRAINT instalment_plan_product_fkey FOREIGN KEY (account_id, livemode, product_id) REFERENCES instalment_product,
  CONSTRAINT instalment_plan_customer_fkey FOREIGN KEY (account_id, livemode, customer_id) REFERENCES customer,
  CONSTRAINT instalment_plan_status_known CHECK (status IN ('pending', 'active', 'overdue', 'completed', 'shipped', 'delivered', 'cancelled')),
  CONSTRAINT instalment_plan_mode_known CHECK (mode IN ('fixed', 'flexible')),
  CONSTRAINT instalment_plan_frequency_known CHECK (frequency IN ('daily', 'weekly', 'biweekly', 'monthly')),
  CONSTRAINT instalment_plan_fixed_has_frequency CHECK ((mode = 'fixed') = (frequency IS NOT NULL)),
  CONSTRAINT instalment_plan_paid_in_range CHECK (paid_kobo BETWEEN 0 AND target_kobo AND fees_paid_kobo >= 0 AND pending_fee_kobo >= 0 AND missed_kobo BETWEEN 0 AND target_kobo - paid_kobo),
  CONSTRAINT instalment_plan_whole_naira CHECK (target_kobo % 100 = 0 AND paid_kobo % 100 = 0 AND fees_paid_kobo % 100 = 0 AND pending_fee_kobo % 100 = 0),
  CONSTRAINT instalment_plan_completed_is_paid CHECK ((completed_at IS NOT NULL) = (status IN ('completed', 'shipped', 'delivered')) AND (completed_at IS NULL OR paid_kobo = target_kobo AND pending_fee_kobo = 0)),
  CONSTRAINT instalment_plan_shipped_is_dated CHECK ((shipped_at IS NOT NULL) = (status IN ('shipped', 'delivered'))),
  CONSTRAINT instalment_plan_delivered_is_dated CHECK ((delivered_at IS NOT NULL) = (status = 'delivered') AND (refund_window_ends_at IS NULL) = (delivered_at IS NULL)),
  CONSTRAINT instalment_plan_cancelled_is_dated CHECK ((cancelled_at IS NOT NULL) = (status = 'cancelled'))
) WITH (fillfactor = 80);
-- Sums over many plans read rows without their schedules.
ALTER TABLE instalment_plan SET (toast_tuple_target = 128);
CREATE UNIQUE INDEX instalment_plan_link_once ON instalment_plan (token_hash, account_id, livemode);
CREATE INDEX instalment_plan_product ON instalment_plan (product_id, account_id, livemode, status) INCLUDE (target_kobo, paid_kobo, fees_paid_kobo, missed_kobo, payments, created_no, id);
CREATE INDEX instalment_plan_customer ON instalment_plan (customer_id, account_id, livemode, id);
CREATE INDEX instalment_plan_status ON instalment_plan (status, account_id, livemode, created_no) INCLUDE (id);
CREATE INDEX instalment_plan_test_clock ON instalment_plan (test_clock_id, account_id, livemode, id) WHERE test_clock_id IS NOT NULL;
-- Begin with the account, and are partial, so that no look-up by primary key takes them.
CREATE INDEX instalment_plan_created ON instalment_plan (account_id, livemode, created_at) WHERE created_at IS NOT NULL;
CREATE INDEX instalment_plan_newest ON instalment_plan (account_id, livemode, created_no) INCLUDE (id) WHERE created_no > 0;
COMMENT ON TABLE instalment_plan IS 'A buyer''s plan to pay for a product in instalments, on the product''s terms as they were when it began. state and what follows from it are the snapshot of machines/instalment.ts.';
COMMENT ON COLUMN instalment_plan.created_no IS 'The order of lists: IDs are drawn at random.';
COMMENT ON COLUMN instalment_plan.token_hash IS 'SHA-256 of the token in the buyer''s address. The token follows from the account, the environment, the ID and a secret of the service.';
COMMENT ON COLUMN instalment_plan.instalments IS 'The schedule: dueAt, amountKobo, status, paidAt of each. A flexible plan has one, all of it by the deadline, which the API does not show.';
COMMENT ON COLUMN instalment_plan.missed_kobo IS 'What is left to pay of the instalments that were missed.';
COMMENT ON COLUMN instalment_plan.paying_charge_id IS 'The payment that is under way.';
COMMENT ON COLUMN instalment_plan.charge_id IS 'The newest payment that was tried.';
COMMENT ON COLUMN instalment_plan.charge_settled_at IS 'When the newest payment succeeded, by the wall clock: what was sent before that was meant for what it paid.';

-- A slot is taken by each plan that is not cancelled. The check of the product refuses what would be one too many. Products are
-- changed in the order of their IDs, so that no two batches wait for each other.
CREATE FUNCTION count_instalment_slots() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE product record;
BEGIN
  FOR product IN EXECUTE CASE TG_OP
    WHEN 'INSERT' THEN 'SELECT account_id, livemode, product_id, count(*) AS change FROM added WHERE status <> ''cancelled'' GROUP BY 1, 2, 3 ORDER BY 3'
    WHEN 'DELETE' THEN 'SELECT account_id, livemode, product_id, -count(*) AS change FROM gone WHERE status <> ''cancelled'' GROUP BY 1, 2, 3 ORDER BY 3'
    ELSE 'SELECT n.account_id, n.livemode, n.product_id, -count(*) AS change FROM gone o JOIN added n ON (n.account_id, n.livemode, n.id) = (o.account_id, o.livemode, o.id)
      WHERE o.status <> ''cancelled'' AND n.status = ''cancelled'' GROUP BY 1, 2, 3 ORDER BY 3'
  END LOOP
    UPDATE instalment_product p SET slots_used = p.slots_used + product.change
    WHERE (p.account_id, p.livemode, p.id) = (product.account_id, product.livemode, product.product_id);
  END LOOP;
  RETURN NULL;
END $$;
CREATE TRIGGER instalment_plan_takes_slot AFTER INSERT ON instalment_plan REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_instalment_slots();
CREATE TRIGGER instalment_plan_releases_slot AFTER UPDATE ON instalment_plan REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_instalment_slots();
CREATE TRIGGER instalment_plan_leaves_slot AFTER DELETE ON instalment_plan REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_instalment_slots();

-- Payments of instalments are charges of their own purpose: one at a time for each plan.
ALTER TABLE charge DROP CONSTRAINT charge_purpose_known;
ALTER TABLE charge ADD CONSTRAINT charge_purpose_known CHECK (purpose IN ('sale', 'verification', 'instalment')) NOT VALID;
ALTER TABLE charge DROP CONSTRAINT charge_verification_sells_nothing;
ALTER TABLE charge ADD CONSTRAINT charge_verification_sells_nothing CHECK (purpose <> 'verification' OR subscription_id IS NULL AND hosted) NOT VALID;
ALTER TABLE charge ADD CONSTRAINT charge_instalment_has_plan CHECK (purpose <> 'instalment' OR subscription_id IS NULL AND starts_with(page_id, 'SB-')) NOT VALID;
CREATE UNIQUE INDEX charge_instalment_under_way_once ON charge (page_id, account_id, livemode) WHERE purpose = 'instalment' AND status = 'pending';
CREATE INDEX charge_instalment_paid ON charge (account_id, livemode, paid_at) INCLUDE (amount_kobo) WHERE purpose = 'instalment' AND status = 'succeeded' AND NOT refund_due;
COMMENT ON COLUMN charge.purpose IS 'sale; verification: money that is taken to save a card, and sent back at once (decision P8), which the API does not show; instalment: of the plan that page_id names.';
COMMENT ON COLUMN charge.page_id IS 'The checkout session, the nudge with the payment link, or the instalment plan on whose page the buyer made it; null: not on a page.';

ALTER TABLE nudge ADD COLUMN instalment_plan_id text COLLATE "C";
ALTER TABLE nudge ADD CONSTRAINT nudge_instalment_plan_fkey FOREIGN KEY (account_id, livemode, instalment_plan_id) REFERENCES instalment_plan NOT VALID;
ALTER TABLE nudge DROP CONSTRAINT nudge_reminder_rule_known;
ALTER TABLE nudge ADD CONSTRAINT nudge_reminder_rule_known CHECK (reminder_rule IS NULL OR reminder_rule IN ('pre_due', 'post_due') AND num_nonnulls(subscription_id, instalment_plan_id) = 1) NOT VALID;
CREATE INDEX nudge_instalment_plan ON nudge (instalment_plan_id, account_id, livemode, id) WHERE instalment_plan_id IS NOT NULL;
COMMENT ON COLUMN nudge.instalment_plan_id IS 'The instalment plan that it reminds of: its link leads to that plan''s payment page.';

DO $$
DECLARE t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['instalment_product', 'instalment_plan'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY own_rows ON %I TO billing_request USING (account_id = current_setting(''billing.account_id'') AND livemode = current_setting(''billing.livemode'')::boolean)', t);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO billing_request', t);
  END LOOP;
END $$;
