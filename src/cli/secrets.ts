/** `secrets …`: what lies encrypted in the database. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { rotate } from "../secret/rotate.ts"
import { serviceSecrets } from "../secret/serviceSecrets.ts"
import { webhookSecrets } from "../webhook/secrets.ts"
import { Refused } from "./failures.ts"
import { migrated, vault } from "./Installation.ts"
import { show } from "./output.ts"

const rotateAll = Command.make(
  "rotate",
  {},
  Effect.fn("secrets.rotate")(function* () {
    const tables = [yield* rotate(serviceSecrets), yield* rotate(webhookSecrets)]
    const sum = (of: "rotated" | "unopened") => tables.reduce((total, table) => total + table[of], 0)
    const rotated = sum("rotated")
    const unopened = sum("unopened")
    if (unopened > 0) {
      const such = tables.flatMap(({ named }) => named.map((place) => place.join(" ")))
      const message = `No ENCRYPTION_KEY of this process opens ${unopened} secrets, such as ${such.join(", ")}; ${rotated} were written anew.`
      return yield* new Refused({ message })
    }
    yield* show({ rotated })
  }, Effect.provide(vault)),
)

export const secrets = Command.make("secrets").pipe(Command.withSubcommands([rotateAll]), Command.provide(migrated))
