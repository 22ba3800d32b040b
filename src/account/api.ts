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
  clientConfig: declare({
    method: "GET",
    path: "/client/config",
    summary: "What a page of the merchant needs to know, with a publishable key",
    access: "publishable",
    status: 200,
    answers: "client_config",
    codes: ["origin_not_allowed"],
  }),
}
