import { expect, it } from "vitest"
import { placeOf } from "../../src/postgres/sockets.ts"

const kept = { keepAlive: true, keepAliveInitialDelay: 10_000 }

it.each([
  ["postgres://u:p@db.example/x", { host: "db.example", port: 5432, ...kept }],
  ["postgres://u:p@db.example:6432/x?sslmode=require", { host: "db.example", port: 6432, ...kept }],
  ["postgres://u:p@[::1]:6432/x", { host: "::1", port: 6432, ...kept }],
  ["postgres://u:p@db.example:6432/x?host=10.0.0.1&port=7432", { host: "10.0.0.1", port: 7432, ...kept }],
  ["postgres:///x", { host: "localhost", port: 5432, ...kept }],
  ["postgres:///x?host=/var/run/postgresql", { path: "/var/run/postgresql/.s.PGSQL.5432" }],
  ["postgres://u@%2Fvar%2Frun:6432/x", { path: "/var/run/.s.PGSQL.6432" }],
])("a database's host is read from its address: %s", (address, place) => {
  expect(placeOf(address)).toEqual(place)
})
