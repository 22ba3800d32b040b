/** The part of the OpenAPI document about what takes no key: health, invoices' links, pages on which buyers pay, callbacks. */
import type { Json } from "../json.ts"
import { TEST_CARDS } from "../rail/simulator/methods.ts"
import { header } from "./openapiComponents.ts"

/** Of what takes no place in a rate: health, and callbacks that are signed. */
const UNLIMITED: Json = { "X-Request-Id": header("RequestId") }
const HEADERS: Json = {
  ...UNLIMITED,
  "RateLimit-Limit": header("RateLimitLimit"),
  "RateLimit-Remaining": header("RateLimitRemaining"),
  "RateLimit-Reset": header("RateLimitReset"),
}

const plain = (description: string, type: string, schema: Json, headers: Json = HEADERS): Json => ({
  description,
  headers,
  content: { [type]: { schema } },
})

const refused = (codes: string): Json =>
  plain(
    `Codes: ${codes}`,
    "application/json",
    { $ref: "#/components/schemas/error" },
    /rate_limited|too_many_in_flight|service_unavailable/.test(codes)
      ? { ...HEADERS, "Retry-After": header("RetryAfter") }
      : HEADERS,
  )

interface Described {
  readonly id: string
  readonly summary: string
  readonly tag: string
  readonly responses: Readonly<Record<string, Json>>
  readonly parameters?: ReadonlyArray<Json>
  readonly body?: Json
  /** Of a body. */
  readonly example?: Json
}

const operation = (
  origin: string,
  { id, summary, tag, responses, parameters = [], body, example }: Described,
): Json => ({
  operationId: id,
  summary,
  tags: [tag],
  servers: [{ url: origin }],
  security: [],
  parameters,
  ...(body === undefined
    ? {}
    : {
        requestBody: {
          content: { "application/json": { schema: body, ...(example === undefined ? {} : { example }) } },
        },
      }),
  responses: { ...responses, "408": refused("request_timeout") },
})

const text: Json = { type: "string" }
const inPath = (name: string, description: string): Json => ({
  name,
  in: "path",
  required: true,
  description,
  schema: text,
})

const status: Json = { type: "object", properties: { status: text }, required: ["status"] }

const data = (properties: Readonly<Record<string, Json>>, required: ReadonlyArray<string>): Json => ({
  type: "object",
  properties: {
    success: { const: true },
    data: { type: "object", properties, required },
  },
  required: ["success", "data"],
})

const METHOD: Readonly<Record<string, Json>> = {
  payment_method: {
    ...(text as object),
    description: "A payment method of the customer, or a pm_test_ ID; or a card, in the fields below",
  },
  card_number: {
    ...(text as object),
    description: `A test card's: ${TEST_CARDS.map(({ number, does }) => `${number} ${does}`).join("; ")}`,
  },
  card_expiry: { ...(text as object), description: "MM/YY" },
  card_cvc: text,
  otp: { ...(text as object), description: "The one-time code, once failure_code is authentication_required" },
  amount: { type: "integer", description: "What the buyer was shown to pay (kobo): refused where that has changed" },
}

const DETAILS: Readonly<Record<string, Json>> = {
  name: { ...(text as object), description: "Needed where the session has no customer" },
  email: text,
  phone: { ...(text as object), description: "E.164, or a local form such as 0803 123 4567" },
  submission: { ...(text as object), description: "Any number of the form: sent again, it gets the same outcome" },
}

const REDIRECT: Json = { type: ["string", "null"], description: "Where the buyer goes on" }

interface Outcome {
  readonly kind: string
  readonly words: ReadonlyArray<string>
  /** What is there beside the status. */
  readonly rest: Readonly<Record<string, Json>>
  /** Of these, what is there with every status; all of them unless it says otherwise. */
  readonly always?: ReadonlyArray<string>
  readonly example: Json
}

const outcome = ({ kind, words, rest, always = Object.keys(rest), example }: Outcome): Json => ({
  description: kind,
  headers: HEADERS,
  content: {
    "application/json": {
      schema: data({ status: { type: "string", enum: words }, ...rest }, ["status", ...always]),
      example: { success: true, data: example },
    },
  },
})

/** `plan`: an example of an instalment plan. */
const pages = (origin: string, plan: Json): Readonly<Record<string, Json>> => {
  const link = [inPath("token", "The secret of the link, a password of its own")]
  const refusals = {
    "400": refused(
      "parameter_missing, parameter_invalid, parameter_unknown, json_invalid, content_type_invalid, request_too_large, resource_missing",
    ),
    "402": refused("card_declined"),
    "403": refused("origin_not_allowed, live_access_required"),
    "404": refused("resource_missing"),
    "409": refused("reset_in_progress, lock_timeout"),
    "429": refused("rate_limited, too_many_attempts"),
    "503": refused("account_moving, service_unavailable"),
  }
  const looked = {
    "404": refused("resource_missing"),
    "429": refused("rate_limited"),
    "503": refused("account_moving, service_unavailable"),
  }
  const amount: Json = { type: "integer", description: "kobo" }
  return {
    "/checkout/{token}/complete": {
      post: operation(origin, {
        id: "completeCheckout",
        summary: "Submit the page of a checkout session",
        tag: "pages",
        parameters: link,
        body: { type: "object", properties: { ...DETAILS, ...METHOD } },
        example: { name: "Ada Obi", email: "ada@example.com", payment_method: "pm_test_success", amount: 500_000 },
        responses: {
          "200": outcome({
            kind: "Completed; or pending at the bank, or on the rail's own page, where the buyer goes on",
            words: ["completed", "pending"],
            rest: { redirect_url: REDIRECT },
            example: { status: "completed", redirect_url: "https://shop.example/welcome" },
          }),
          ...refusals,
          "422": refused(
            "checkout_session_not_open, charge_in_progress, amount_changed, test_clock_advancing, test_clock_not_ready",
          ),
        },
      }),
    },
    "/checkout/{token}/return": {
      get: operation(origin, {
        id: "getCheckoutOutcome",
        summary: "What has become of a checkout session",
        tag: "pages",
        parameters: link,
        responses: {
          "200": outcome({
            kind: "As it stands",
            words: ["open", "pending", "completed", "expired"],
            rest: { redirect_url: REDIRECT },
            example: { status: "completed", redirect_url: "https://shop.example/welcome" },
          }),
          ...looked,
        },
      }),
    },
    "/pay/{token}/complete": {
      post: operation(origin, {
        id: "completePayment",
        summary: "Pay what is owed by a payment link, or save a payment method where nothing is",
        tag: "pages",
        parameters: link,
        body: { type: "object", properties: { email: DETAILS.email!, ...METHOD, submission: DETAILS.submission! } },
        example: { payment_method: "pm_test_success", amount: 500_000 },
        responses: {
          "200": outcome({
            kind: "Paid, saved, or pending at the bank, with the amount; or pending on the rail's own page, with its address",
            words: ["paid", "saved", "pending"],
            rest: { amount, redirect_url: REDIRECT },
            always: [],
            example: { status: "paid", amount: 500_000 },
          }),
          ...refusals,
          "422": refused(
            "payment_link_closed, charge_in_progress, amount_changed, test_clock_advancing, test_clock_not_ready",
          ),
        },
      }),
    },
    "/save/{token}": {
      get: operation(origin, {
        id: "getInstalmentPage",
        summary: "The buyer's page of an instalment plan; with Accept: application/json the plan itself",
        tag: "pages",
        parameters: link,
        responses: {
          "200": {
            description: "The plan",
            headers: HEADERS,
            content: {
              "application/json": {
                schema: {
                  type: "object",
                  properties: { success: { const: true }, data: { $ref: "#/components/schemas/savings_plan" } },
                  required: ["success", "data"],
                },
                example: { success: true, data: plan },
              },
            },
          },
          "404": refused("resource_missing"),
          "410": plain("A page that says that it is cancelled", "text/html", text),
          "429": refused("rate_limited"),
        },
      }),
    },
    "/save/{token}/pay/complete": {
      post: operation(origin, {
        id: "completeInstalment",
        summary: "Pay on an instalment plan: what is due, or more",
        tag: "pages",
        parameters: link,
        body: {
          type: "object",
          properties: {
            email: DETAILS.email!,
            ...METHOD,
            amount: {
              type: "integer",
              description: "Whole naira: needed where the buyer chooses it, else what is due where it is left out",
            },
            submission: DETAILS.submission!,
          },
        },
        example: { payment_method: "pm_test_success", amount: 80_000 },
        responses: {
          "200": outcome({
            kind: "Paid, or pending at the bank, with the amount in whole naira and the plan; or pending on the rail's own page, with its address",
            words: ["paid", "pending"],
            rest: {
              amount: { type: "integer", description: "whole naira" },
              plan: { $ref: "#/components/schemas/savings_plan" },
              redirect_url: REDIRECT,
            },
            always: ["amount", "plan"],
            example: { status: "paid", amount: 80_000, plan },
          }),
          ...refusals,
          "422": refused(
            "savings_plan_state_invalid, charge_in_progress, amount_changed, test_clock_advancing, test_clock_not_ready",
          ),
        },
      }),
    },
    "/save/{token}/pay/return": {
      get: operation(origin, {
        id: "getInstalmentOutcome",
        summary: "How payments on an instalment plan stand",
        tag: "pages",
        parameters: link,
        responses: {
          "200": outcome({
            kind: "As it stands",
            words: ["open", "pending", "paid", "closed"],
            rest: { redirect_url: REDIRECT },
            example: { status: "pending", redirect_url: null },
          }),
          ...looked,
        },
      }),
    },
    "/pay/{token}/return": {
      get: operation(origin, {
        id: "getPaymentOutcome",
        summary: "How things stand behind a payment link",
        tag: "pages",
        parameters: link,
        responses: {
          "200": outcome({
            kind: "As it stands",
            words: ["open", "pending", "paid", "saved", "closed"],
            rest: { redirect_url: REDIRECT },
            example: { status: "paid", redirect_url: null },
          }),
          ...looked,
        },
      }),
    },
  }
}

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
  refusals: {
    "403": refused("signature_invalid"),
    "404": refused("message_unknown"),
    "503": refused("service_unavailable"),
  },
}

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

const callbacks = (origin: string): Readonly<Record<string, Json>> => ({
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
  "/callbacks/termii/{account}": callback(origin, MESSENGER, "Termii", {
    "x-termii-signature": "HMAC-SHA512 of the body with the account's secret, in hexadecimal",
  }),
})

/** By path. What is asked for without a key lies beside the environments, at `origin`. */
export const withoutKey = (origin: string, plan: Json): Readonly<Record<string, Json>> => {
  const get = (described: Described): Json => ({ get: operation(origin, described) })
  return {
    "/healthz": get({
      id: "getHealthz",
      summary: "Whether the process is up",
      tag: "health",
      responses: { "200": plain("It is", "application/json", status, UNLIMITED) },
    }),
    "/readyz": get({
      id: "getReadyz",
      summary: "Whether requests can be served",
      tag: "health",
      responses: {
        "200": plain("The database answers and is migrated", "application/json", status, UNLIMITED),
        "503": plain(
          "The database cannot be reached, is not migrated or takes no writes: status says which",
          "application/json",
          status,
          UNLIMITED,
        ),
      },
    }),
    "/invoices/{id}.pdf": get({
      id: "getInvoicePdf",
      summary: "The PDF of a service invoice, behind the signed link that its pdf_url is",
      tag: "invoices",
      parameters: [
        { name: "id", in: "path", required: true, schema: text },
        ...["expires", "signature"].map((name) => ({ name, in: "query", required: true, schema: text })),
      ],
      responses: {
        "200": plain("The document", "application/pdf", { type: "string", contentEncoding: "binary" }),
        "403": refused("link_invalid"),
        "429": refused("rate_limited"),
      },
    }),
    ...pages(origin, plan),
    ...callbacks(origin),
  }
}
