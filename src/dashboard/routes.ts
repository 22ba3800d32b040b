/** All routes of the dashboard. */
import { accountRoutes } from "./account.ts"
import { assetRoutes } from "./assets.ts"
import { bookExportRoutes } from "./bookExports.ts"
import { bookRoutes } from "./books.ts"
import { chargeRoutes } from "./charges.ts"
import { checkoutSessionRoutes } from "./checkoutSessions.ts"
import { clockRoutes } from "./clocks.ts"
import { closingRoutes } from "./closing.ts"
import { customerRoutes } from "./customers.ts"
import { eventRoutes } from "./events.ts"
import { homeRoutes } from "./home.ts"
import { instalmentProductRoutes } from "./instalmentProducts.ts"
import { instalmentRoutes } from "./instalments.ts"
import { invoicePages } from "./invoices.ts"
import { keyRoutes } from "./keys.ts"
import { machineRoutes } from "./machines.ts"
import { nudgeRoutes } from "./nudges.ts"
import { passkeyRoutes } from "./passkeys.ts"
import { planRoutes } from "./plans.ts"
import { railRoutes } from "./rail.ts"
import { requestRoutes } from "./requests.ts"
import { sandboxRoutes } from "./sandbox.ts"
import { searchRoutes } from "./search.ts"
import { settlementRoutes } from "./settlements.ts"
import { signInRoutes } from "./signIn.ts"
import { subscriptionPageRoutes } from "./subscription.ts"
import { subscriptionRoutes } from "./subscriptions.ts"
import { teamRoutes } from "./team.ts"
import { webhookRoutes } from "./webhooks.ts"

export const dashboardRoutes = [
  ...assetRoutes,
  ...signInRoutes,
  ...passkeyRoutes,
  ...accountRoutes,
  ...teamRoutes,
  ...railRoutes,
  ...homeRoutes,
  ...customerRoutes,
  ...keyRoutes,
  ...webhookRoutes,
  ...eventRoutes,
  ...requestRoutes,
  ...clockRoutes,
  ...sandboxRoutes,
  ...subscriptionRoutes,
  ...planRoutes,
  ...subscriptionPageRoutes,
  ...closingRoutes,
  ...bookExportRoutes,
  ...bookRoutes,
  ...chargeRoutes,
  ...checkoutSessionRoutes,
  ...nudgeRoutes,
  ...instalmentProductRoutes,
  ...instalmentRoutes,
  ...searchRoutes,
  ...machineRoutes,
  ...settlementRoutes,
  ...invoicePages,
]
