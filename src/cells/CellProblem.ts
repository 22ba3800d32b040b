import { Data } from "effect"

/** The error if cells cannot be one deployment, or if an account cannot move between them now. */
export class CellProblem extends Data.TaggedError("CellProblem")<{ readonly message: string }> {}

export const cellProblem = (message: string): CellProblem => new CellProblem({ message })
