-- Less work for each statement that writes one row; what was promised stays promised.

-- A function in SQL is planned as part of the constraint by each statement that writes a subscription, which took as long as all else
-- that such a statement does. This one is planned once for a connection.
CREATE OR REPLACE FUNCTION period_boundary(cycle text, anchor timestamptz, n integer) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN ((anchor AT TIME ZONE 'UTC') + CASE cycle
    WHEN 'daily' THEN make_interval(hours => 24 * n)
    WHEN 'weekly' THEN make_interval(hours => 168 * n)
    WHEN 'quarterly' THEN make_interval(months => 3 * n)
    ELSE make_interval(months => n)
  END) AT TIME ZONE 'UTC';
END $$;

-- Without calls of functions that set their search_path again, unless the account is moving.
CREATE OR REPLACE FUNCTION enter_tenant(account text, live boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF NOT live THEN
    -- Looked at twice: before, so as not to wait for a reset at work; and after, since one may have been asked for meanwhile.
    IF NOT EXISTS (SELECT 1 FROM sandbox_reset WHERE account_id = account AND NOT livemode) THEN
      PERFORM pg_advisory_xact_lock_shared(7301003, hashtext(account));
    END IF;
    IF EXISTS (SELECT 1 FROM sandbox_reset WHERE account_id = account AND NOT livemode) THEN
      RAISE EXCEPTION 'the sandbox of % is being reset', account USING ERRCODE = 'BR001';
    END IF;
  END IF;
  IF EXISTS (SELECT 1 FROM account_move WHERE account_id = account) THEN PERFORM refuse_moving(account); END IF;
  PERFORM set_config('billing.account_id', account, true), set_config('billing.livemode', live::text, true);
END $$;

-- Where nothing is paid, nothing is looked for.
CREATE OR REPLACE FUNCTION refuse_period_paid_twice() RETURNS trigger LANGUAGE plpgsql AS $$
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
  IF NOT FOUND THEN RETURN NULL; END IF;
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
