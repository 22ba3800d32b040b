import { declare } from "../http/Endpoint.ts"

export const accountApi = {
  get: declare({
    method: "GET",
    path: "/account",
    summary: "Get the account",
    access: "any",
    status: 200,
    answers: "account",
  }),
}
