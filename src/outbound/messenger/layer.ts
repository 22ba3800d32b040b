/** Who sends for which channel: simulators in the sandbox, what is set up in live (decisions H5, H6). */
import { Context, Effect, Layer } from "effect"
import type { Channel } from "../../../machines/nudge.ts"
import type { MessengerSettings } from "../../config/Config.ts"
import { type ChannelMessenger, Messenger, Refused } from "./Messenger.ts"
import type { Callback } from "./receipts.ts"
import { simulated } from "./simulator.ts"
import { createMailer, email, type Mailer } from "./smtp.ts"
import { termii, termiiCallback } from "./termii.ts"
import { whatsApp, whatsAppCallback } from "./whatsapp.ts"

/** Beside sending: what messengers tell us, and mail to accounts' owners. */
export class Messengers extends Context.Service<
  Messengers,
  {
    /** By the name of the provider in a callback's address. */
    readonly callbacks: Readonly<Record<string, Callback | undefined>>
    /** undefined where e-mail is not set up. */
    readonly mailer: Mailer | undefined
  }
>()("billing/messenger/Messengers") {}

const missing: ChannelMessenger = {
  repeatable: true,
  atOnce: 200,
  send: () => Effect.fail(new Refused({ reason: "channel_not_set_up" })),
}

export const messengerLayer = (settings: MessengerSettings): Layer.Layer<Messenger | Messengers> => {
  const mailer = settings.smtp === undefined ? undefined : createMailer(settings.smtp)
  const otherwise = settings.simulateLive ? simulated : missing
  const live: Readonly<Record<Channel, ChannelMessenger>> = {
    whatsapp: settings.whatsapp === undefined ? otherwise : whatsApp(settings.whatsapp),
    sms: settings.termii === undefined ? otherwise : termii(settings.termii),
    email: mailer === undefined ? otherwise : email(mailer),
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
