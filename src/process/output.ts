/** Standard output and standard error of a process. */

/**
 * Ignores lines that cannot be written, because a disk is full or the reader is gone: without a listener the error would end the process.
 * Code that needs the result of a write checks the write itself.
 */
export const outliveOutput = (): void => {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
}
