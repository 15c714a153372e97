import { Transform } from 'node:stream'
import { formProblem } from './refusal.ts'

/** RFC 2045, section 6.8. Fails with a problem for other input. */
export function createBase64Decoder(): Transform {
  let rest = ''
  let isEnded = false

  const decode = (text: string): Buffer => {
    const characters = rest + text.replaceAll(/[\r\n\t ]/g, '')
    if (isEnded && characters !== '') throw malformedProblem()
    const whole = characters.length - (characters.length % 4)
    rest = characters.slice(whole)
    const quanta = characters.slice(0, whole)
    if (!base64.test(quanta)) throw malformedProblem()
    isEnded = quanta.endsWith('=')
    return Buffer.from(quanta, 'base64')
  }

  return new Transform({
    transform: (chunk: Buffer, _encoding, callback) => {
      try {
        callback(null, decode(chunk.toString('latin1')))
      } catch (error) {
        callback(error instanceof Error ? error : malformedProblem())
      }
    },
    flush: (callback) => callback(rest === '' ? null : malformedProblem()),
  })
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/

function malformedProblem(): Error {
  return formProblem('A part with the Content-Transfer-Encoding base64 is not valid base64.')
}
