/** What pages say after an action, by the name in `?notice=`. Only these texts can be shown, so that no link puts words in our mouth. */

const NOTICES: Readonly<Record<string, string>> = {
  welcome: "You are signed in.",
  switched: "You now see this account.",
  invited: "The invitation was sent.",
  role_changed: "The role was changed.",
  member_removed: "The member was removed, and signed out.",
  session_ended: "The session was ended.",
  passkey_added: "The passkey was added.",
  passkey_removed: "The passkey was removed.",
  account_saved: "The profile was saved.",
  live_requested: "Live access was asked for.",
  month_closed: "The month is closed.",
  month_reopened: "The month is open again.",
  settlement_imported: "The file was booked.",
  suspense_explained: "The balance is explained and booked.",
  saved: "Saved.",
  created: "Created.",
  done: "Done.",
  deleted: "Deleted.",
  resent: "The event is being sent again.",
  triggered: "The test event was created.",
  resetting: "The sandbox is being emptied. Its keys and webhook endpoints stay.",
  advancing: "The clock advances.",
  rail_switched: "The rail of live payments was switched.",
  key_revoked: "The key was revoked: requests with it are refused.",
}

export const noticeOf = (name: string | null): string | null =>
  name !== null && Object.hasOwn(NOTICES, name) ? NOTICES[name]! : null
