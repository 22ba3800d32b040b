import { Data } from "effect"

/** The error if cells cannot be one deployment, or if an account cannot move between them now. */
export class CellsApart extends Data.TaggedError("CellsApart")<{ readonly message: string }> {}

export const apart = (message: string): CellsApart => new CellsApart({ message })
