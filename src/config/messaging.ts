/** Reads the settings of reminders: the messengers that send them, and the quiet hours (decisions H4, H6). */
import { Effect, Redacted } from "effect"
import type { QuietHours } from "../../machines/reminders.ts"
import {
  ConfigProblem,
  type Messaging,
  type SmtpSettings,
  type TermiiSettings,
  type WhatsAppSettings,
} from "./Config.ts"
import { allOrNone, EMAIL, isLoopback, secret, text, webUrl } from "./settings.ts"

/** Two hours of the day, 0 to 23. */
const HOURS = /^(\d|1\d|2[0-3])-(\d|1\d|2[0-3])$/
/** The sender names that Termii accepts. */
const SENDER = /^[A-Za-z0-9 ]{3,11}$/

const isMailServer = (text: string): boolean => {
  const url = URL.parse(text)
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.port === "0") return false
  return url.hostname !== "" || url.searchParams.has("host")
}

const quietHours = Effect.gen(function* (): Effect.fn.Return<QuietHours | null, ConfigProblem> {
  const value = (yield* text("QUIET_HOURS")) ?? "20-8"
  if (value === "off") return null
  const [, from, to] = HOURS.exec(value) ?? []
  if (from === undefined || to === undefined || from === to) {
    return yield* new ConfigProblem({
      message: `QUIET_HOURS must be two different hours such as 20-8, or off, not "${value}".`,
    })
  }
  return { from: Number(from), to: Number(to) }
})

const whatsapp = Effect.fnUntraced(function* (
  production: boolean,
): Effect.fn.Return<WhatsAppSettings | undefined, ConfigProblem> {
  const found = yield* allOrNone({
    WHATSAPP_PHONE_NUMBER_ID: yield* text("WHATSAPP_PHONE_NUMBER_ID"),
    WHATSAPP_TOKEN: yield* secret("WHATSAPP_TOKEN"),
    WHATSAPP_APP_SECRET: yield* secret("WHATSAPP_APP_SECRET"),
    WHATSAPP_VERIFY_TOKEN: yield* secret("WHATSAPP_VERIFY_TOKEN"),
  })
  if (found === undefined) return undefined
  return {
    url: (yield* webUrl("WHATSAPP_URL", production)) ?? "https://graph.facebook.com/v23.0",
    phoneNumberId: found.WHATSAPP_PHONE_NUMBER_ID,
    token: found.WHATSAPP_TOKEN,
    appSecret: found.WHATSAPP_APP_SECRET,
    verifyToken: found.WHATSAPP_VERIFY_TOKEN,
    language: (yield* text("WHATSAPP_LANGUAGE")) ?? "en",
  }
})

const termii = Effect.fnUntraced(function* (
  production: boolean,
): Effect.fn.Return<TermiiSettings | undefined, ConfigProblem> {
  const found = yield* allOrNone({
    TERMII_API_KEY: yield* secret("TERMII_API_KEY"),
    TERMII_SECRET: yield* secret("TERMII_SECRET"),
    TERMII_SENDER: yield* text("TERMII_SENDER"),
  })
  if (found === undefined) return undefined
  if (!SENDER.test(found.TERMII_SENDER))
    return yield* new ConfigProblem({ message: "TERMII_SENDER must be 3 to 11 letters and digits." })
  return {
    url: (yield* webUrl("TERMII_URL", production)) ?? "https://v3.api.termii.com",
    apiKey: found.TERMII_API_KEY,
    secret: found.TERMII_SECRET,
    from: found.TERMII_SENDER,
  }
})

/** Whether mail cannot be read on the network: TLS from the start, STARTTLS required, or a server on this machine. */
const isPrivate = (url: string): boolean => {
  if (url.startsWith("smtps:")) return true
  if (!URL.canParse(url)) return false
  const { hostname, searchParams } = new URL(url)
  return isLoopback(hostname) || searchParams.getAll("requireTLS").join() === "true"
}

const smtp = Effect.fnUntraced(function* (
  production: boolean,
): Effect.fn.Return<SmtpSettings | undefined, ConfigProblem> {
  const found = yield* allOrNone({ SMTP_URL: yield* secret("SMTP_URL"), EMAIL_FROM: yield* text("EMAIL_FROM") })
  if (found === undefined) return undefined
  if (!isMailServer(Redacted.value(found.SMTP_URL)))
    return yield* new ConfigProblem({
      message: "SMTP_URL must be an address such as smtps://user:password@mail.example.com:465.",
    })
  if (production && !isPrivate(Redacted.value(found.SMTP_URL))) {
    return yield* new ConfigProblem({
      message: "SMTP_URL must ask for TLS when NODE_ENV=production: begin it with smtps://, or add ?requireTLS=true.",
    })
  }
  if (!EMAIL.test(found.EMAIL_FROM))
    return yield* new ConfigProblem({ message: "EMAIL_FROM must be an e-mail address." })
  return { url: found.SMTP_URL, from: found.EMAIL_FROM }
})

export const readMessaging = Effect.fnUntraced(function* (
  production: boolean,
): Effect.fn.Return<Messaging, ConfigProblem> {
  return {
    whatsapp: yield* whatsapp(production),
    termii: yield* termii(production),
    smtp: yield* smtp(production),
    quietHours: yield* quietHours,
    simulateLive: !production,
  }
})
