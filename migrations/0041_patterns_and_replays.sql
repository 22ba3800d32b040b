-- Only what has a family matches its pattern: charge.succeeded is one of charge.*, a type that is called charge is not.
CREATE OR REPLACE FUNCTION event_patterns(type text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ARRAY['*', type] || CASE WHEN type LIKE '%.%' THEN ARRAY[split_part(type, '.', 1) || '.*'] ELSE '{}' END
$$;

-- A request that is repeated gets the response that it got, with what it asked to expand as it was then.
ALTER TABLE idempotency_record ADD COLUMN expanded_fields text[];
ALTER TABLE idempotency_record ADD COLUMN expanded_body bytea;
ALTER TABLE idempotency_record ADD CONSTRAINT idempotency_record_expanded CHECK ((expanded_fields IS NULL) = (expanded_body IS NULL)) NOT VALID;
ALTER TABLE idempotency_record ADD CONSTRAINT idempotency_record_expanded_bounded CHECK (octet_length(expanded_body) <= 262144 + 28) NOT VALID;
COMMENT ON COLUMN idempotency_record.expanded_fields IS 'What the first request asked to expand; null: nothing, or its answer was too large to keep.';
COMMENT ON COLUMN idempotency_record.expanded_body IS 'Its answer with that expanded, encrypted as response_body is.';
