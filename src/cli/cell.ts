/** `cell …`: joins cells and configures their proxy (docs/scaling.md). */
import { Effect, Redacted, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { readCellsFile } from "../cells/cellsFile.ts"
import { haproxyConfig } from "../cells/haproxy.ts"
import { join } from "../cells/join.ts"
import { readRoutes } from "../cells/routes.ts"
import { readConfig } from "../config/readConfig.ts"
import { cellsOption, fromEveryCell, migratedCells } from "./everyCell.ts"
import { onWritable, vaultOfServers } from "./Installation.ts"
import { openDatabase } from "./otherCells.ts"
import { print, show } from "./output.ts"
import { databaseOption, listening, text } from "./parameters.ts"

const joinOther = Command.make(
  "join",
  { from: databaseOption("from") },
  Effect.fn("cell.join")(function* ({ from }) {
    const other = yield* openDatabase("--from", Redacted.make(from))
    yield* show({ copied: yield* Effect.provide(join(other), vaultOfServers) })
  }, Effect.scoped),
)

const haproxy = Command.make(
  "haproxy",
  {
    cells: cellsOption,
    bind: listening("bind").pipe(Flag.withDefault(":8080")),
    admin: text("admin", "ADDRESS").pipe(Flag.withDefault("127.0.0.1:9999")),
    folder: text("folder", "FOLDER").pipe(Flag.withDefault("/etc/haproxy")),
    asMap: Flag.Boolean("map").pipe(Flag.withoutNegation, Flag.withDefault(false)),
  },
  Effect.fn("cell.haproxy")(function* ({ cells: path, bind, admin, folder, asMap }) {
    if (asMap) return yield* Effect.provide(print(fromEveryCell(readRoutes)), migratedCells(path))
    const config = yield* readConfig(process.env, { development: false, elsewhere: true })
    const own = [{ cell: config.cell, servers: [`${config.host}:${config.port}`] }]
    const cells = path === undefined ? own : yield* readCellsFile(path, config.production)
    yield* print(Stream.make(haproxyConfig({ cells, bind, admin, folder })))
  }),
)

// The machine of the proxy may have no database: `haproxy` needs none.
export const cell = Command.make("cell").pipe(Command.withSubcommands([onWritable(joinOther), haproxy]))
