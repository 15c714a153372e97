import { isEmailAddress, keyOwnerEvents, keyOwnerUrl } from '@postern/contracts'
import { problem } from '@postern/service-kit'
import type { Outbound } from '../../outbound/outbound.ts'
import { areCertificates, certificatesRule } from '../../source/http/fields.ts'
import { SourceReadError } from '../../source/source-read-error.ts'
import type { Mailer } from '../delivery/mail.ts'
import { type Recipients, recipientsOf } from '../rules.ts'

const lookupMs = 5000

const maxRecipients = 10

/** Throws a 422 problem unless the URL can be delivered to. Each delivery checks the address again. */
export async function assertEndpointUrl(
  { outbound, mailer }: { readonly outbound: Pick<Outbound, 'resolve'>; readonly mailer: Mailer | undefined },
  text: string,
): Promise<void> {
  const recipients = recipientsOf(text)
  if (recipients !== undefined) {
    assertRecipients(recipients, mailer)
    return
  }
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) throw invalidUrlProblem('invalid', 'must be a URL such as https://hooks.example.com/postern')
  if (url.protocol !== 'https:') throw invalidUrlProblem('not_encrypted', 'must use https')
  if (url.username !== '' || url.password !== '') {
    throw invalidUrlProblem('invalid', 'must not contain a password: verify signatures instead')
  }
  if (url.hash !== '') throw invalidUrlProblem('invalid', 'must not contain a fragment')
  try {
    await outbound.resolve(url.hostname, AbortSignal.timeout(lookupMs))
  } catch (error) {
    if (error instanceof SourceReadError)
      throw invalidUrlProblem(error.code, `cannot be used, because ${error.message}`)
    throw invalidUrlProblem(
      'host_unknown',
      `names the host ${url.hostname}, which cannot be looked up: check it and try again`,
    )
  }
}

/** Throws a 422 problem if the endpoint cannot get one of the events. */
export function assertEndpointEvents({
  url,
  events,
}: {
  readonly url: string
  readonly events: readonly string[]
}): void {
  if (url !== keyOwnerUrl || events.every((name) => keyOwnerEvents.includes(name))) return
  const detail = `can be ${keyOwnerEvents.slice(0, -1).join(', ')} and ${keyOwnerEvents.at(-1)} for ${keyOwnerUrl}`
  throw problem('invalid_content', { errors: [{ pointer: '/events', code: 'invalid', detail }] })
}

export function assertEndpointCa(ca: string | null | undefined): void {
  if (ca === null || ca === undefined || areCertificates(ca)) return
  throw problem('invalid_content', { errors: [{ pointer: '/ca', code: 'invalid', detail: certificatesRule }] })
}

function assertRecipients(recipients: Recipients, mailer: Mailer | undefined): void {
  if (mailer === undefined) {
    throw invalidUrlProblem('not_configured', 'cannot be an e-mail address, because the platform has no mail server')
  }
  if (recipients.kind === 'key_owner') return
  const { addresses } = recipients
  if (addresses.length > maxRecipients || !addresses.every(isEmailAddress)) {
    throw invalidUrlProblem('invalid', `must have one to ${maxRecipients} e-mail addresses, separated by commas`)
  }
}

function invalidUrlProblem(code: string, detail: string): Error {
  return problem('invalid_content', { errors: [{ pointer: '/url', code, detail }] })
}
