/** A test's name server: answers A and AAAA questions from a table, with its current content. */
import { createSocket } from "node:dgram"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll } from "vitest"

const A = 1
const AAAA = 28
const HEADER_BYTES = 12

const addressBytes = (address: string): Buffer => {
  if (!address.includes(":")) return Buffer.from(address.split(".").map(Number))
  const [head = "", tail = ""] = address.split("::")
  const parse = (text: string) => text.split(":").filter(Boolean)
  const zeros = Array.from({ length: 8 - parse(head).length - parse(tail).length }, () => "0")
  return Buffer.from(
    [...parse(head), ...zeros, ...parse(tail)].flatMap((part) => {
      const value = Number.parseInt(part, 16)
      return [value >> 8, value & 0xff]
    }),
  )
}

const answerTo = (question: Buffer, addressesOf: (name: string) => ReadonlyArray<string>): Buffer => {
  const labels: Array<string> = []
  let at = HEADER_BYTES
  while (question[at] !== 0) {
    labels.push(question.toString("latin1", at + 1, at + 1 + question[at]!))
    at += question[at]! + 1
  }
  const type = question.readUInt16BE(at + 1)
  const end = at + 5
  const wanted = addressesOf(labels.join(".").toLowerCase()).filter((one) => one.includes(":") === (type === AAAA))
  const records = (type === A || type === AAAA ? wanted : []).map((address) => {
    const bytes = addressBytes(address)
    const head = Buffer.from([0xc0, HEADER_BYTES, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length])
    return Buffer.concat([head, bytes])
  })
  const header = Buffer.from(question.subarray(0, HEADER_BYTES))
  header.writeUInt16BE(0x8180, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(records.length, 6)
  header.writeUInt32BE(0, 8)
  return Buffer.concat([header, question.subarray(HEADER_BYTES, end), ...records])
}

/** Call at the top of a test file, before the server that asks it. */
export const useNameServer = () => {
  const table = new Map<string, (asked: number) => ReadonlyArray<string>>()
  const asked = new Map<string, number>()
  const socket = createSocket("udp4")
  socket.on("message", (question, from) => {
    const answer = answerTo(question, (name) => {
      const count = (asked.get(name) ?? 0) + 1
      asked.set(name, count)
      return table.get(name)?.(count) ?? []
    })
    socket.send(answer, from.port, from.address)
  })
  beforeAll(() => new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve)))
  afterAll(() => void socket.close())
  return {
    address: () => `127.0.0.1:${(socket.address() as AddressInfo).port}`,
    /** The addresses of a name. A function gets the number of questions about the name so far. */
    set: (name: string, addresses: ReadonlyArray<string> | ((asked: number) => ReadonlyArray<string>)) =>
      void table.set(name, typeof addresses === "function" ? addresses : () => addresses),
  }
}
