/** A real SMTP server on this machine: records mail, and refuses configured recipients. */
import type { AddressInfo } from "node:net"
import { SMTPServer } from "smtp-server"
import { afterAll, beforeAll } from "vitest"

export interface Mail {
  readonly to: string
  /** Headers and body as they were sent, with folded long lines joined. */
  readonly text: string
}

const refusal = (code: number, message: string) => Object.assign(new Error(message), { responseCode: code })

/** Call at the top of a test file. `bounce@…` is refused permanently, `busy@…` the first time. */
export const useMailbox = () => {
  const mails: Array<Mail> = []
  const asked = new Set<string>()
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    onRcptTo: ({ address }, _, callback) => {
      if (address.startsWith("bounce@")) return callback(refusal(550, "No such mailbox"))
      const first = !asked.has(address)
      asked.add(address)
      return callback(address.startsWith("busy@") && first ? refusal(451, "Try again later") : null)
    },
    onData: (stream, session, callback) => {
      let text = ""
      stream.setEncoding("utf8").on("data", (part: string) => {
        text += part
      })
      stream.on("end", () => {
        const plain = text.replaceAll(/=\r\n/g, "").replaceAll("=3D", "=")
        for (const { address } of session.envelope.rcptTo) mails.push({ to: address, text: plain })
        callback()
      })
    },
  })
  beforeAll(() => new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", () => resolve())))
  afterAll(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return {
    url: () => `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    to: (address: string) => mails.filter(({ to }) => to === address),
  }
}
