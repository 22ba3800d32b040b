/** Standard output and standard error of a process. */

/**
 * Lines that cannot be written, since a disk is full or nobody reads any more, are lost: without a listener they would end the process.
 * Who has to know what became of a write asks the write itself.
 */
export const outliveOutput = (): void => {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
}
