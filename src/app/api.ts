/** Lists every endpoint of the API, and every public route (no key needed). */

import { chargeEndpoints } from "../billing/charge/http.ts"
import { clockEndpoints } from "../billing/clock/http.ts"
import { customerEndpoints } from "../billing/customer/http.ts"
import { paymentMethodEndpoints } from "../billing/payment_method/http.ts"
import { paymentEndpoints } from "../billing/payments/http.ts"
import { planEndpoints } from "../billing/plan/http.ts"
import { subscriptionEndpoints } from "../billing/subscription/http.ts"
import { checkoutEndpoints } from "../buying/checkout/http.ts"
import { checkoutRoutes } from "../buying/checkout/routes.ts"
import { instalmentEndpoints } from "../buying/instalment/http.ts"
import { instalmentPageRoutes } from "../buying/instalment/page.ts"
import { instalmentPaymentRoutes } from "../buying/instalment/routes.ts"
import { paymentLinkRoutes } from "../buying/payment_link/routes.ts"
import { dashboardRoutes } from "../dashboard/routes.ts"
import type { Endpoint, ServicesOf } from "../http/Endpoint.ts"
import type { PublicRoute, PublicServicesOf } from "../http/publicRoutes.ts"
import { accountEndpoints } from "../merchants/account/http.ts"
import { activityEndpoints } from "../merchants/activity/http.ts"
import { invoiceEndpoints, invoiceRoutes } from "../merchants/invoice/http.ts"
import { providerEndpoints } from "../merchants/provider/http.ts"
import { requestEndpoints } from "../merchants/request/http.ts"
import { usageEndpoints } from "../merchants/usage/http.ts"
import { eventEndpoints } from "../outbound/event/http.ts"
import { nudgeCallbacks, nudgeEndpoints } from "../outbound/nudge/http.ts"
import { webhookEndpoints } from "../outbound/webhook/http.ts"
import { railCallbacks } from "../rails/rail_callback/http.ts"
import { sandboxEndpoints } from "../sandbox/http.ts"

const routes = [
  ...checkoutRoutes,
  ...dashboardRoutes,
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
  ...paymentEndpoints,
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
  ...requestEndpoints,
  ...activityEndpoints,
]

export const endpoints: ReadonlyArray<Endpoint<ServicesOf<(typeof all)[number]>>> = all
