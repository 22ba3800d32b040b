/** DashboardSettings are what the dashboard needs to know about its installation. */
import { Context, Layer } from "effect"
import type { Letter } from "../merchants/account/letters.ts"

export class DashboardSettings extends Context.Service<
  DashboardSettings,
  {
    /** The letters that pages show in development without SMTP, by the visitor's cookie; null: letters are sent. */
    readonly letters: Map<string, Letter> | null
  }
>()("billing/dashboard/DashboardSettings") {
  static readonly layer = (showsLetters: boolean): Layer.Layer<DashboardSettings> =>
    Layer.succeed(DashboardSettings, { letters: showsLetters ? new Map() : null })
}
