/** All routes of the dashboard. */
import { accountRoutes } from "./account.ts"
import { assetRoutes } from "./assets.ts"
import { chargeRoutes } from "./charges.ts"
import { checkoutSessionRoutes } from "./checkoutSessions.ts"
import { customerRoutes } from "./customers.ts"
import { homeRoutes } from "./home.ts"
import { instalmentProductRoutes } from "./instalmentProducts.ts"
import { instalmentRoutes } from "./instalments.ts"
import { nudgeRoutes } from "./nudges.ts"
import { passkeyRoutes } from "./passkeys.ts"
import { planRoutes } from "./plans.ts"
import { searchRoutes } from "./search.ts"
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
  ...chargeRoutes,
  ...checkoutSessionRoutes,
  ...nudgeRoutes,
  ...instalmentProductRoutes,
  ...instalmentRoutes,
  ...searchRoutes,
]
