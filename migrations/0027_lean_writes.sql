-- Less work for each row of a renewal; what was promised stays promised.

-- Without a time zone of the session anywhere in it, so that it is planned as part of the constraint.
CREATE OR REPLACE FUNCTION period_boundary(cycle text, anchor timestamptz, n integer) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ((anchor AT TIME ZONE 'UTC') + CASE cycle
    WHEN 'daily' THEN make_interval(hours => 24 * n)
    WHEN 'weekly' THEN make_interval(hours => 168 * n)
    WHEN 'quarterly' THEN make_interval(months => 3 * n)
    ELSE make_interval(months => n)
  END) AT TIME ZONE 'UTC'
$$;

-- No two paid periods of a subscription overlap. An exclusion constraint cost more than all else that a payment writes: who pays
-- for a period of a subscription holds that subscription, and looks at the periods that end later.
ALTER TABLE charge DROP CONSTRAINT charge_period_paid_once;
CREATE INDEX charge_period_paid ON charge (subscription_id, period_end_at, account_id, livemode)
  WHERE status = 'succeeded' AND subscription_id IS NOT NULL AND NOT refund_due;

CREATE FUNCTION refuse_period_paid_twice() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE twice record;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'charges are written in read committed transactions: those of others are looked at' USING ERRCODE = 'feature_not_supported';
  END IF;
  -- Whoever pays for a period of the same subscription meanwhile is waited for; what that wrote is seen below.
  PERFORM 1 FROM (
    SELECT DISTINCT account_id, livemode, subscription_id FROM new_charges
    WHERE status = 'succeeded' AND subscription_id IS NOT NULL AND NOT refund_due ORDER BY 3
  ) n CROSS JOIN LATERAL (
    SELECT 1 FROM subscription s WHERE (s.account_id, s.livemode, s.id) = (n.account_id, n.livemode, n.subscription_id) FOR NO KEY UPDATE
  ) s;
  SELECT n.id, n.subscription_id, c.id AS other INTO twice
  FROM new_charges n CROSS JOIN LATERAL (
    SELECT c.id FROM charge c
    WHERE (c.account_id, c.livemode, c.subscription_id) = (n.account_id, n.livemode, n.subscription_id) AND c.id <> n.id
      AND c.status = 'succeeded' AND c.subscription_id IS NOT NULL AND NOT c.refund_due
      AND c.period_end_at > n.period_start_at AND c.period_start_at < n.period_end_at AND c.period_start_at < c.period_end_at
    ORDER BY c.period_end_at LIMIT 1
  ) c
  WHERE n.status = 'succeeded' AND n.subscription_id IS NOT NULL AND NOT n.refund_due AND n.period_start_at < n.period_end_at LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'charge % pays for a period of % that % has paid for', twice.id, twice.subscription_id, twice.other
      USING ERRCODE = 'exclusion_violation', TABLE = 'charge', CONSTRAINT = 'charge_period_paid_once';
  END IF;
  RETURN NULL;
END $$;
COMMENT ON FUNCTION refuse_period_paid_twice IS 'No two paid periods of a subscription overlap, whoever writes them.';
CREATE TRIGGER charge_period_paid_once_new AFTER INSERT ON charge REFERENCING NEW TABLE AS new_charges
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_period_paid_twice();
CREATE TRIGGER charge_period_paid_once AFTER UPDATE ON charge REFERENCING NEW TABLE AS new_charges
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_period_paid_twice();

-- Whose customer, or whose subscription, exists, exists itself.
ALTER TABLE charge DROP CONSTRAINT charge_account_id_fkey;
ALTER TABLE subscription DROP CONSTRAINT subscription_account_id_fkey;
ALTER TABLE revenue_schedule DROP CONSTRAINT revenue_schedule_account_id_fkey;
