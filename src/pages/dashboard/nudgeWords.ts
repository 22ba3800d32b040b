/** The names of channels and messages of nudges. */
import type { Channel, NudgeTemplate } from "../../../machines/nudge.ts"

export const CHANNEL_NAMES: Readonly<Record<Channel, string>> = { whatsapp: "WhatsApp", sms: "SMS", email: "e-mail" }

export const TEMPLATE_NAMES: Readonly<Record<NudgeTemplate, string>> = {
  payment_due: "Payment due",
  payment_failed: "Payment failed",
  update_payment_method: "Update payment method",
  service_paused: "Service paused",
  custom: "Custom message",
}
