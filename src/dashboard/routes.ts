/** All routes of the dashboard. */
import { accountRoutes } from "./account.ts"
import { assetRoutes } from "./assets.ts"
import { customerRoutes } from "./customers.ts"
import { homeRoutes } from "./home.ts"
import { machineRoutes } from "./machines.ts"
import { passkeyRoutes } from "./passkeys.ts"
import { signInRoutes } from "./signIn.ts"
import { subscriptionRoutes } from "./subscription.ts"

export const dashboardRoutes = [
  ...assetRoutes,
  ...signInRoutes,
  ...passkeyRoutes,
  ...accountRoutes,
  ...homeRoutes,
  ...customerRoutes,
  ...subscriptionRoutes,
  ...machineRoutes,
]
