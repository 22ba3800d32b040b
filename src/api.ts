/** Every endpoint, and every route that needs no key. */
import { accountEndpoints } from "./account/http.ts"
import { chargeEndpoints } from "./charge/http.ts"
import { checkoutEndpoints } from "./checkout/http.ts"
import { checkoutRoutes } from "./checkout/site.ts"
import { clockEndpoints } from "./clock/http.ts"
import { collectingEndpoints } from "./collecting/http.ts"
import { customerEndpoints } from "./customer/http.ts"
import { eventEndpoints } from "./event/http.ts"
import type { Endpoint, ServicesOf } from "./http/Endpoint.ts"
import type { PublicRoute, PublicServicesOf } from "./http/publicRoutes.ts"
import { instalmentEndpoints } from "./instalment/http.ts"
import { instalmentPageRoutes } from "./instalment/page.ts"
import { instalmentPaymentRoutes } from "./instalment/site.ts"
import { invoiceEndpoints, invoiceRoutes } from "./invoice/http.ts"
import { nudgeCallbacks, nudgeEndpoints } from "./nudge/http.ts"
import { paymentLinkRoutes } from "./payment_link/site.ts"
import { paymentMethodEndpoints } from "./payment_method/http.ts"
import { planEndpoints } from "./plan/http.ts"
import { providerEndpoints } from "./provider/http.ts"
import { railCallbacks } from "./rail_callback/http.ts"
import { sandboxEndpoints } from "./sandbox/http.ts"
import { subscriptionEndpoints } from "./subscription/http.ts"
import { usageEndpoints } from "./usage/http.ts"
import { webhookEndpoints } from "./webhook/http.ts"

const routes = [
  ...checkoutRoutes,
  ...instalmentPageRoutes,
  ...instalmentPaymentRoutes,
  ...invoiceRoutes,
  ...nudgeCallbacks,
  ...paymentLinkRoutes,
  ...railCallbacks,
]

export const publicRoutes: ReadonlyArray<PublicRoute<PublicServicesOf<(typeof routes)[number]>>> = routes

const all = [
  ...accountEndpoints,
  ...planEndpoints,
  ...customerEndpoints,
  ...paymentMethodEndpoints,
  ...subscriptionEndpoints,
  ...collectingEndpoints,
  ...chargeEndpoints,
  ...checkoutEndpoints,
  ...instalmentEndpoints,
  ...nudgeEndpoints,
  ...eventEndpoints,
  ...webhookEndpoints,
  ...clockEndpoints,
  ...sandboxEndpoints,
  ...usageEndpoints,
  ...invoiceEndpoints,
  ...providerEndpoints,
]

export const endpoints: ReadonlyArray<Endpoint<ServicesOf<(typeof all)[number]>>> = all
