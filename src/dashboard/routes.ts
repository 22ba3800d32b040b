/** All routes of the dashboard. */
import { accountRoutes } from "./account.ts"
import { assetRoutes } from "./assets.ts"
import { customerRoutes } from "./customers.ts"
import { homeRoutes } from "./home.ts"
import { passkeyRoutes } from "./passkeys.ts"
import { planRoutes } from "./plans.ts"
import { signInRoutes } from "./signIn.ts"
import { subscriptionRoutes } from "./subscriptions.ts"

export const dashboardRoutes = [
  ...assetRoutes,
  ...signInRoutes,
  ...passkeyRoutes,
  ...accountRoutes,
  ...homeRoutes,
  ...customerRoutes,
  ...subscriptionRoutes,
  ...planRoutes,
]
