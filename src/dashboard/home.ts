/** The start page of an environment (decision R9). */
import { Effect } from "effect"
import { pageHead } from "../pages/dashboard/parts.ts"
import { html } from "../pages/html.ts"
import { memberPage, show } from "./pages.ts"

const home = memberPage(
  "/dashboard/:environment",
  { right: "see" },
  { GET: (viewer) => Effect.succeed(show(viewer, "Home", html`${pageHead("Home")}`)) },
)

export const homeRoutes = [home]
