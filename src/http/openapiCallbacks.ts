/** The part of the OpenAPI document about callbacks: what rails and messengers call, signed. */
import type { Json } from "../base/json.ts"
import { inPath, operation, plain, refused, text, UNLIMITED } from "./openapiOperations.ts"

/** Who calls back: a rail about its transactions, or a messenger about its messages. */
interface Caller {
  readonly summary: (caller: string) => string
  readonly account: Json
  readonly refusals: Readonly<Record<string, Json>>
}

const RAIL: Caller = {
  summary: (rail) => `What ${rail} calls about a transaction: its reference is asked about, nothing else of it counts`,
  account: inPath("account", "The ID of the account that the transaction is of"),
  refusals: { "401": refused("signature_invalid"), "503": refused("account_moving, service_unavailable") },
}
const MESSENGER: Caller = {
  summary: (messenger) => `What ${messenger} says of messages that it took`,
  account: inPath(
    "account",
    "The ID of the account whose messages are meant, or `all` where one number or sender serves every account",
  ),
  refusals: { "403": refused("signature_invalid"), "503": refused("service_unavailable") },
}
/** A receipt of Termii can overtake its answer, which names the message: it is to be sent again. */
const TERMII: Caller = { ...MESSENGER, refusals: { ...MESSENGER.refusals, "404": refused("message_unknown") } }

/** A callback, signed by one of these headers. */
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
      "200": plain("Noted, or nothing to note", "text/plain", text, UNLIMITED),
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
      summary: "What WhatsApp asks before it calls here: the challenge is the answer to whoever knows the token",
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
