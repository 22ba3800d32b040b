/** The part of the OpenAPI document about the signed callbacks of rails and messengers. */
import type { Json } from "../base/json.ts"
import { inPath, operation, plain, refused, text, UNLIMITED } from "./openapiOperations.ts"

/** The caller: a rail about its transactions, or a messenger about its messages. */
interface Caller {
  readonly summary: (caller: string) => string
  readonly account: Json
  readonly refusals: Readonly<Record<string, Json>>
}

const RAIL: Caller = {
  summary: (rail) =>
    `${rail}'s callback about a transaction: ${rail} is asked about its reference, and nothing else in it counts`,
  account: inPath("account", "The ID of the transaction's account"),
  refusals: { "401": refused("signature_invalid"), "503": refused("account_moving, service_unavailable") },
}
const MESSENGER: Caller = {
  summary: (messenger) => `${messenger}'s callback about messages that it accepted`,
  account: inPath(
    "account",
    "The ID of the account that sent the messages, or `all` if one number or sender serves every account",
  ),
  refusals: { "403": refused("signature_invalid"), "503": refused("service_unavailable") },
}
/** A receipt of Termii can arrive before the answer that names the message: Termii must send it again. */
const TERMII: Caller = { ...MESSENGER, refusals: { ...MESSENGER.refusals, "404": refused("message_unknown") } }

/** A callback that is signed in one of these headers. */
const callback = (
  origin: string,
  { summary, account, refusals }: Caller,
  caller: string,
  headers: Readonly<Record<string, string>>,
): Json => ({
  post: operation(origin, {
    id: `receive${caller}Callback`,
    summary: summary(caller),
    tag: "callbacks",
    parameters: [
      account,
      ...Object.entries(headers).map(([name, description]) => ({ name, in: "header", description, schema: text })),
    ],
    body: { type: "object", description: `As ${caller} documents it, at most 256 KiB` },
    responses: {
      "200": plain("Recorded, or nothing to record", "text/plain", text, UNLIMITED),
      "400": refused("request_too_large"),
      "429": refused("rate_limited, too_many_in_flight"),
      ...refusals,
    },
  }),
})

export const callbacks = (origin: string): Readonly<Record<string, Json>> => ({
  "/callbacks/paystack/{account}": callback(origin, RAIL, "Paystack", {
    "x-paystack-signature": "HMAC-SHA512 of the body with the secret key, in hexadecimal",
  }),
  "/callbacks/flutterwave/{account}": callback(origin, RAIL, "Flutterwave", {
    "flutterwave-signature": "HMAC-SHA256 of the body with the secret hash, in base64",
    "verif-hash": "The secret hash itself: either of the two is needed",
  }),
  "/callbacks/whatsapp/{account}": {
    get: operation(origin, {
      id: "confirmWhatsAppCallback",
      summary:
        "WhatsApp's check of this address before it sends callbacks: a request with the right token gets the challenge",
      tag: "callbacks",
      parameters: [
        MESSENGER.account,
        ...["hub.mode", "hub.verify_token", "hub.challenge"].map((name) => ({ name, in: "query", schema: text })),
      ],
      responses: {
        "200": plain("The challenge", "text/plain", text, UNLIMITED),
        "403": refused("signature_invalid"),
        "429": refused("rate_limited, too_many_in_flight"),
      },
    }),
    ...callback(origin, MESSENGER, "WhatsApp", {
      "x-hub-signature-256": "`sha256=` and the HMAC-SHA256 of the body with the app's secret, in hexadecimal",
    }),
  },
  "/callbacks/termii/{account}": callback(origin, TERMII, "Termii", {
    "x-termii-signature": "HMAC-SHA512 of the body with the account's secret, in hexadecimal",
  }),
})
