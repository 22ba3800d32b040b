import { Data } from "effect"

/** Why cells cannot be one deployment, or an account cannot move between them as things stand. */
export class CellsApart extends Data.TaggedError("CellsApart")<{ readonly message: string }> {}

export const apart = (message: string): CellsApart => new CellsApart({ message })
