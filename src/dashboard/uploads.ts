/** Reads a form with a file. Its fields come before the file, and its bytes are bounded while they arrive. */
import { Busboy } from "@fastify/busboy"
import { Effect } from "effect"
import { type Problem, problem } from "../base/problem.ts"
import { isSame } from "../base/sameSecret.ts"
import { Counter } from "../concurrency/Counter.ts"
import type { PublicRequest } from "../http/publicRoutes.ts"
import { type Form, FROM_ELSEWHERE, formOf, isFromHere, type UploadedFile } from "./forms.ts"

/** A settlement file with all the rows that it may have (src/ledger/imports.ts), of 500 bytes each. */
const MAX_FILE_BYTES = 10 * 1024 * 1024
/** The form has a few short fields besides its secret. */
const MAX_FIELDS = 20
const MAX_FIELD_BYTES = 2_000
/** The column of the file name is as long. */
const MAX_NAME = 200
/** Uploads under way of an account, and of a process: they are in memory. */
const MAX_OF_ACCOUNT = 1
const MAX_IN_ALL = 4

const ALL = "all"
const running = new Counter()

const UNREADABLE = problem("form_invalid", "The form cannot be read.")
const TOO_LARGE = problem("request_too_large", "The file may have at most 10 MB: split it.")
const BUSY = problem("too_many_in_flight", "Another file is being uploaded: try again in a moment.")

const parse = ({ headers, upload }: PublicRequest): Effect.Effect<Form, Problem> =>
  Effect.callback<Form, Problem>((resume) => {
    const type = headers["content-type"] ?? ""
    if (!type.startsWith("multipart/form-data")) return resume(Effect.fail(UNREADABLE))
    const pairs: Array<readonly [string, string]> = []
    let file: UploadedFile | undefined
    const reader = new Busboy({
      headers: { ...headers, "content-type": type },
      limits: { fileSize: MAX_FILE_BYTES, files: 1, fields: MAX_FIELDS, fieldSize: MAX_FIELD_BYTES },
    })
    const refuse = (refusal: Problem) => {
      upload.unpipe(reader)
      upload.resume()
      resume(Effect.fail(refusal))
    }
    reader.on("field", (name, value) => pairs.push([name, value]))
    reader.on("file", (_, stream, name) => {
      const parts: Array<Buffer> = []
      stream.on("data", (part: Buffer) => parts.push(part))
      stream.on("limit", () => refuse(TOO_LARGE))
      stream.on("end", () => {
        file = { name: (name ?? "").slice(0, MAX_NAME), bytes: Buffer.concat(parts) }
      })
    })
    reader.on("error", () => refuse(UNREADABLE))
    reader.on("finish", () =>
      resume(Effect.succeed({ ...formOf(pairs), ...(file === undefined || file.name === "" ? {} : { file }) })),
    )
    // It closes after its end too, maybe before the reader has finished.
    upload.on("close", () => (upload.readableEnded ? undefined : resume(Effect.fail(UNREADABLE))))
    upload.pipe(reader)
  })

/** Reads a form with a file that contains this token. */
export const readUpload = Effect.fnUntraced(function* (
  request: PublicRequest,
  origin: string,
  token: string,
  account: string,
) {
  if (!isFromHere(request.headers, origin)) return yield* FROM_ELSEWHERE
  if (running.of(ALL) >= MAX_IN_ALL || running.of(account) >= MAX_OF_ACCOUNT) return yield* BUSY
  const count = (by: number) =>
    Effect.sync(() => {
      running.add(ALL, by)
      running.add(account, by)
    })
  const form = yield* Effect.acquireUseRelease(
    count(1),
    () => parse(request),
    () => count(-1),
  )
  return isSame(form.get("form_token"), token) ? form : yield* FROM_ELSEWHERE
})
