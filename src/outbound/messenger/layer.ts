/** Selects the messenger of each channel: simulators in the sandbox, configured ones in live (decisions H5, H6). */
import { Context, Effect, Layer } from "effect"
import type { Channel } from "../../../machines/nudge.ts"
import type { MessengerSettings } from "../../config/Config.ts"
import { type ChannelMessenger, Messenger, Refused } from "./Messenger.ts"
import type { Callback } from "./receipts.ts"
import { simulated } from "./simulator.ts"
import { createMailer, email, type Mailer } from "./smtp.ts"
import { termii, termiiCallback } from "./termii.ts"
import { whatsApp, whatsAppCallback } from "./whatsapp.ts"

/** Messengers' callbacks, and the mailer for e-mails to account owners. */
export class Messengers extends Context.Service<
  Messengers,
  {
    /** By the provider's name in the callback's URL. */
    readonly callbacks: Readonly<Record<string, Callback | undefined>>
    /** undefined if e-mail is not configured. */
    readonly mailer: Mailer | undefined
  }
>()("billing/outbound/messenger/Messengers") {}

const missing: ChannelMessenger = {
  repeatable: true,
  atOnce: 200,
  send: () => Effect.fail(new Refused({ reason: "channel_not_set_up" })),
}

export const messengerLayer = (settings: MessengerSettings): Layer.Layer<Messenger | Messengers> => {
  const mailer = settings.smtp === undefined ? undefined : createMailer(settings.smtp)
  const fallback = settings.simulateLive ? simulated : missing
  const live: Readonly<Record<Channel, ChannelMessenger>> = {
    whatsapp: settings.whatsapp === undefined ? fallback : whatsApp(settings.whatsapp),
    sms: settings.termii === undefined ? fallback : termii(settings.termii),
    email: mailer === undefined ? fallback : email(mailer),
  }
  return Layer.merge(
    Layer.succeed(Messenger, { of: (livemode, channel) => (livemode ? live[channel] : simulated) }),
    Layer.succeed(Messengers, {
      callbacks: {
        whatsapp: settings.whatsapp === undefined ? undefined : whatsAppCallback(settings.whatsapp),
        termii: settings.termii === undefined ? undefined : termiiCallback(settings.termii),
      },
      mailer,
    }),
  )
}
