/** Renders the first steps of a new account, which stand on Home until it has a subscription or a charge. */
import { type Html, html } from "../html.ts"
import type { ActionLink } from "./parts.ts"

/** Which first steps are done. */
export interface Steps {
  readonly key: boolean
  readonly plan: boolean
  readonly subscription: boolean
  readonly charge: boolean
  readonly webhook: boolean
}

interface FirstSteps {
  readonly base: string
  readonly isSandbox: boolean
  readonly steps: Steps
  readonly may: { readonly operate: boolean; readonly develop: boolean }
}

const step = (isDone: boolean, title: string, text: string, action: ActionLink, isAllowed: boolean): Html =>
  html`<li><h3>${title} ${isDone && html`<span class="status good">done</span>`}</h3><p>${text}</p>${
    !isDone && isAllowed && html`<p><a class="act" href="${action.href}">${action.label}</a></p>`
  }</li>
`

/** Renders what a new account does first. */
export const firstSteps = ({ base, steps, may, isSandbox }: FirstSteps): Html =>
  html`<div class="card stack"><h2>Your first steps</h2><p>${
    isSandbox
      ? "Try everything here: in the sandbox no money moves."
      : "These steps take you to the first live payment."
  }</p><ol class="first-steps">${step(
    steps.plan,
    "Create a plan",
    "What you sell, its price and how often it is charged.",
    { href: `${base}/plans/new`, label: "Create a plan" },
    may.operate,
  )}${step(
    steps.subscription,
    "Get your first subscription",
    "Add a customer and subscribe them, or send a checkout link and let them pay.",
    { href: `${base}/customers/new`, label: "Add a customer" },
    may.operate,
  )}${step(
    steps.key,
    "Make an API key",
    "Only if your own system is to call the API.",
    { href: `${base}/keys`, label: "API keys" },
    may.develop,
  )}${step(
    steps.webhook,
    "Add a webhook",
    "Your system then gets an event when a customer pays or does not pay.",
    { href: `${base}/webhooks`, label: "Webhooks" },
    may.develop,
  )}</ol></div>
`
