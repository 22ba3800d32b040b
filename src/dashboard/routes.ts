/** All routes of the dashboard. */
import { accountRoutes } from "./account.ts"
import { assetRoutes } from "./assets.ts"
import { bookExportRoutes } from "./bookExports.ts"
import { bookRoutes } from "./books.ts"
import { closingRoutes } from "./closing.ts"
import { customerRoutes } from "./customers.ts"
import { homeRoutes } from "./home.ts"
import { invoicePages } from "./invoices.ts"
import { passkeyRoutes } from "./passkeys.ts"
import { settlementRoutes } from "./settlements.ts"
import { signInRoutes } from "./signIn.ts"

export const dashboardRoutes = [
  ...assetRoutes,
  ...signInRoutes,
  ...passkeyRoutes,
  ...accountRoutes,
  ...homeRoutes,
  ...customerRoutes,
  ...closingRoutes,
  ...bookExportRoutes,
  ...bookRoutes,
  ...settlementRoutes,
  ...invoicePages,
]
