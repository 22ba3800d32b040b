/** Prints the OpenAPI document that a server serves at /openapi.json, without starting one. */
import { endpoints } from "../src/app/api.ts"
import { openApi } from "../src/http/openapi.ts"
import { declaredEvents as events } from "../src/sandbox/samples.ts"

/** The host of its examples: a deployment's own document has its own. */
const ORIGIN = "https://billing.example"

// A reader that has seen enough (`| head`) closes the pipe.
process.stdout.on("error", () => {})
process.stdout.write(`${JSON.stringify(openApi({ endpoints, events }, ORIGIN), null, 2)}\n`)
