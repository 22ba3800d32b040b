/** Tests the dashboard's letters over SMTP (decisions R2, R3, R4): they arrive, and what signs in is kept nowhere. */
import { expect, it } from "vitest"
import { useOwnInstance } from "../support/instance.ts"
import { useMailbox } from "../support/mailbox.ts"
import { signedIn } from "../support/member.ts"
import { eventually } from "../support/story.ts"
import { askForCode, codeIn, newVisitor } from "../support/visitor.ts"

const mailbox = useMailbox()
const { database, server, accountId } = useOwnInstance(() => ({
  SMTP_URL: mailbox.url(),
  EMAIL_FROM: "billing@service.example",
}))

const mailTo = (address: string) => eventually(async () => mailbox.to(address)[0]?.text)

const lettersTo = (address: string) =>
  database.run(
    (sql) =>
      sql<{
        subject: string
        body: string
        sent: boolean
      }>`SELECT subject, body, sent_at IS NOT NULL AS sent FROM letter WHERE recipient = ${address}`,
  )

it("a code arrives, the page does not show it, and the letter is emptied once it is sent", async () => {
  const email = "ada@mail.example"
  const visitor = newVisitor(server().origin)
  const page = await askForCode(visitor, email, "Fit")
  expect(page.text).toContain(`<strong>${email}</strong>`)
  expect(page.text).not.toMatch(/Development|Your code is/)
  const mail = await mailTo(email)
  const code = codeIn(mail)
  expect(mail).toContain(`Subject: ${code} is your code`)
  const letter = await eventually(async () => (await lettersTo(email)).find(({ sent }) => sent))
  expect([letter.subject, letter.body]).toEqual(["", ""])
  expect(server().output()).not.toContain(code)
  expect((await visitor.post("/dashboard/sign-in/code", { code })).status).toBe(201)
})

it("an invitation arrives with its link, which the page does not show", async () => {
  const email = "guest@mail.example"
  const owner = await signedIn(database, server().origin, accountId())
  const invited = await owner.post("/dashboard/team", { email, role: "finance" })
  expect(invited.location).toBe("/dashboard/team?notice=invited")
  const path = /\/dashboard\/invitations\/[\w-]+/.exec(await mailTo(email))![0]
  await eventually(async () => ((await lettersTo(email))[0]?.body === "" ? true : undefined))
  const guest = newVisitor(server().origin)
  await guest.get(path)
  expect((await guest.post(path)).location).toBe("/dashboard?notice=welcome")
})

it("a letter that the address refuses is not kept either, and the page said the same", async () => {
  const email = "bounce@mail.example"
  const page = await askForCode(newVisitor(server().origin), email, "Fit")
  expect([page.status, page.text.includes("We sent a letter to")]).toEqual([200, true])
  await eventually(async () => ((await lettersTo(email))[0]?.body === "" ? true : undefined))
})
