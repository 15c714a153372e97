import { headLimits } from './form-head.ts'

const token = String.raw`[-!#$%&'*+.^_\`|~\w]+`
const parameter = String.raw`;[ \t]*(${token})=(?:"([^"\\]*)"|(${token}))`
const formType = new RegExp(String.raw`^multipart/form-data(?:[ \t]*${parameter})*[ \t]*;?$`, 'i')
const parameters = new RegExp(parameter, 'g')
/** RFC 2046, section 5.1.1. */
const validBoundary = /^[-\w'()+,./:=? ]{0,69}[-\w'()+,./:=?]$/

/** Returns the boundary of a form, or undefined if the content type is not that of a form with one boundary. */
export function findBoundary(contentType: string): string | undefined {
  if (!formType.test(contentType.trim())) return undefined
  const named = [...contentType.matchAll(parameters)].filter(([, name]) => name?.toLowerCase() === 'boundary')
  const [, , quoted, plain] = named[0] ?? []
  const boundary = quoted ?? plain ?? ''
  return named.length === 1 && validBoundary.test(boundary) ? boundary : undefined
}

const endOfHead = Buffer.from('\r\n\r\n')
const none = Buffer.alloc(0)

/**
 * Returns a function for the chunks of a form. `onHead` gets the head of each part as latin1, or undefined if no head
 * follows a boundary.
 */
export function createHeadScanner(
  boundary: string,
  onHead: (head: string | undefined) => void,
): (chunk: Buffer) => void {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  let state: 'content' | 'head' | 'end' = 'content'
  /** What may begin a delimiter, or the head so far. The first delimiter needs no line break before it. */
  let held = Buffer.from('\r\n')

  function skipContent(chunk: Buffer): Buffer | undefined {
    const border = Buffer.concat([held, chunk.subarray(0, delimiter.length - 1)])
    const inBorder = border.indexOf(delimiter)
    const at = inBorder < 0 ? chunk.indexOf(delimiter) : inBorder - held.length
    if (at >= 0 || inBorder >= 0) return chunk.subarray(at + delimiter.length)
    const last = chunk.length < delimiter.length ? border : chunk
    // A copy, because the parser may release the chunk.
    held = Buffer.from(last.subarray(Math.max(0, last.length - delimiter.length + 1)))
    return undefined
  }

  /** Returns what follows the head, or undefined if its end has not arrived or the form has ended. */
  function readHead(chunk: Buffer): Buffer | undefined {
    held = Buffer.concat([held, chunk])
    if (held.length < 2) return undefined
    const start = held.toString('latin1', 0, 2)
    const end = held.indexOf(endOfHead)
    const isTooLong = (end < 0 ? held.length : end) > headLimits.headerSize
    if (start !== '\r\n' || isTooLong || held.subarray(0, end < 0 ? held.length : end).includes(delimiter)) {
      state = 'end'
      if (start !== '--') onHead(isTooLong ? held.toString('latin1') : undefined)
      return undefined
    }
    if (end < 0) return undefined
    onHead(held.toString('latin1', 0, end))
    return held.subarray(end + endOfHead.length)
  }

  return (chunk) => {
    let rest: Buffer | undefined = chunk
    while (rest !== undefined && state !== 'end') {
      if (state === 'content') {
        rest = skipContent(rest)
        if (rest === undefined) return
        held = none
        state = 'head'
      } else {
        rest = readHead(rest)
        if (rest === undefined) return
        // The last line break of the head may begin a delimiter.
        held = Buffer.from('\r\n')
        state = 'content'
      }
    }
  }
}
