/** Connections as a bad client has them. */
import type { Socket } from "node:net"

/** Done when it is closed, however it ends; `once` would fail where it is reset. */
export const closed = (socket: Socket): Promise<unknown> => {
  socket.on("error", () => {})
  return new Promise((resolve) => socket.resume().once("close", resolve))
}
