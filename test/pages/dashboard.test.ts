/** Tests the states of the dashboard's pages that only few accounts show. Those of a usual account: test/dashboard/links.test.ts. */
import { it } from "vitest"
import { dashboardGallery } from "../../scripts/dashboardGallery.ts"
import { checkPage } from "../support/dashboardPage.ts"

it.each([...dashboardGallery()])("%s", (_, page) => checkPage(page))
