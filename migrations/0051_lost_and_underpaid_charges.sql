-- Charges over whose call a process died are sent once more (decision P9); payments of another amount are shown to the merchant (decision P10).

ALTER TABLE charge
  ADD COLUMN resend text,
  ADD COLUMN attention jsonb,
  ADD CONSTRAINT charge_resend_known CHECK (resend = ANY ('{possible,made}')) NOT VALID,
  ADD CONSTRAINT charge_attention_while_pending CHECK (attention IS NULL OR status = 'pending' AND octet_length(attention::text) <= 1000) NOT VALID;
COMMENT ON COLUMN charge.resend IS 'possible: its process died over the call, and the charge is sent again, once, if the rail does not know it; made: that was done.';
COMMENT ON COLUMN charge.attention IS 'While it is pending: what the rail received in place of what was asked for, as the API shows it.';
CREATE INDEX charge_attention ON charge (account_id, livemode, id) WHERE attention IS NOT NULL;

COMMENT ON COLUMN rail_call.sent_at IS 'Written before the call is made: about one that a process died over the rail is asked, and only what it does not know is sent again (decisions F1, P9).';
