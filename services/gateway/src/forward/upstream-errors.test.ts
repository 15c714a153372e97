import { describe, expect, test } from 'vitest'
import {
  BodyTooLargeError,
  BodyTooSlowError,
  EmptyBodyError,
  NoConnectionError,
  SignatureRefusedError,
  upstreamFailure,
} from './upstream-errors.ts'

function withCode(code: string): Error {
  return Object.assign(new Error('connect ECONNREFUSED 10.1.2.3:8182'), { code })
}

describe('a failure before the answer', () => {
  test.each([
    ['ECONNREFUSED', withCode('ECONNREFUSED')],
    ['a connection that is not made in time', withCode('UND_ERR_CONNECT_TIMEOUT')],
    [
      'none of several addresses that answers in time',
      new AggregateError([withCode('ETIMEDOUT'), withCode('ETIMEDOUT')], 'no address'),
    ],
    ['no connection free', new NoConnectionError()],
    ['the gateway’s signature refused', new SignatureRefusedError()],
  ])('%s: 503, nothing was done', (_what, error) => {
    expect(upstreamFailure(error)).toMatchObject({ code: 'service_unavailable' })
  })

  test.each(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])('%s: 504, to be checked', (code) => {
    expect(upstreamFailure(withCode(code))).toMatchObject({ code: 'gateway_timeout' })
  })

  test.each(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'HPE_INVALID_CONSTANT', 'something new'])('%s: 502', (code) => {
    expect(upstreamFailure(withCode(code))).toMatchObject({ code: 'bad_gateway' })
  })

  test('of an unknown kind: 502', () => {
    expect(upstreamFailure('a text')).toMatchObject({ code: 'bad_gateway' })
  })

  test('caused by the client gets a 4xx code', () => {
    expect(upstreamFailure(new BodyTooLargeError())).toMatchObject({ code: 'content_too_large' })
    expect(upstreamFailure(new EmptyBodyError())).toMatchObject({ code: 'bad_request' })
    expect(upstreamFailure(new BodyTooSlowError())).toMatchObject({ code: 'request_timeout' })
  })

  test('never tells the client where the service is', () => {
    for (const code of ['ECONNREFUSED', 'ECONNRESET', 'UND_ERR_HEADERS_TIMEOUT']) {
      expect(JSON.stringify(upstreamFailure(withCode(code)))).not.toMatch(/10\.1\.2\.3|8182|ECONN/)
    }
  })
})
