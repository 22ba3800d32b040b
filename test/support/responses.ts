/** The schemas of the API's responses, by name. */
import type { Schema } from "effect"
import { endpoints } from "../../src/app/api.ts"
import { nameOf } from "../../src/http/response.ts"

export const RESPONSES = new Map(
  endpoints.map(({ declaration: { success } }) => [nameOf(success), success as Schema.Codec<unknown, unknown>]),
)
