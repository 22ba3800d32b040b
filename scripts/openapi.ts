/** Prints the OpenAPI document that a server serves at /openapi.json, without starting one. */
import { endpoints } from "../src/app/api.ts"
import { openApi } from "../src/http/openapi.ts"
import { declaredEvents as events } from "../src/sandbox/samples.ts"

/** The host in its examples; the document of a deployment has the deployment's host. */
const ORIGIN = "https://billing.example"

// A reader that stops (`| head`) closes the pipe.
process.stdout.on("error", () => {})
process.stdout.write(`${JSON.stringify(openApi({ endpoints, events }, ORIGIN), null, 2)}\n`)
