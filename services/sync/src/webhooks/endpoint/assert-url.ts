import { problem } from '@postern/service-kit'
import type { Outbound } from '../../outbound/outbound.ts'
import { SourceReadError } from '../../source/source-read-error.ts'

const lookupMs = 5000

/** Throws a 422 problem unless the URL can be delivered to. Each delivery checks the address again. */
export async function assertEndpointUrl(outbound: Pick<Outbound, 'resolve'>, text: string): Promise<void> {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined) throw invalid('invalid', 'must be a URL such as https://hooks.example.com/postern')
  if (url.protocol !== 'https:') throw invalid('not_encrypted', 'must use https')
  if (url.username !== '' || url.password !== '') {
    throw invalid('invalid', 'must not contain a password: verify signatures instead')
  }
  if (url.hash !== '') throw invalid('invalid', 'must not contain a fragment')
  try {
    await outbound.resolve(url.hostname, AbortSignal.timeout(lookupMs))
  } catch (error) {
    if (error instanceof SourceReadError) throw invalid(error.code, error.message)
    throw invalid('host_unknown', `names the host ${url.hostname}, which cannot be looked up: check it and try again`)
  }
}

function invalid(code: string, detail: string): Error {
  return problem('invalid_content', { errors: [{ pointer: '/url', code, detail }] })
}
