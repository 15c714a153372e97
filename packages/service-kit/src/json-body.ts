import { ProblemError, problem } from './problem.ts'

/** Deepest nesting of a JSON body. No resource needs more than a handful of levels. */
export const maxJsonDepth = 32

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Parses a JSON body (RFC 8259): UTF-8 without a byte order mark, at most `maxJsonDepth` levels deep. Throws a problem
 * that says what to mend.
 */
export function parseJsonBody(body: Buffer): unknown {
  if (body.length === 0) return undefined
  let text: string
  try {
    text = utf8.decode(body)
  } catch (cause) {
    throw problem('malformed_json', { detail: 'The body is not UTF-8.', cause })
  }
  if (text.startsWith('\uFEFF')) throw problem('malformed_json', { detail: 'The body begins with a byte order mark.' })
  assertDepth(text)
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof ProblemError) throw error
    // The parser's message quotes the body, which may hold what must not be logged or repeated.
    throw problem('malformed_json', { detail: 'The body is not valid JSON (RFC 8259).' })
  }
}

const quote = 0x22
const backslash = 0x5c

/** Counts brackets outside strings before anything walks the value: a deep body must not cost a deep stack. */
function assertDepth(text: string): void {
  let depth = 0
  let inString = false
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (inString) {
      if (code === backslash) at += 1
      else if (code === quote) inString = false
    } else if (code === quote) {
      inString = true
    } else if (code === 0x5b || code === 0x7b) {
      depth += 1
      if (depth > maxJsonDepth) {
        throw problem('malformed_json', { detail: `The body is nested more than ${maxJsonDepth} levels deep.` })
      }
    } else if (code === 0x5d || code === 0x7d) {
      depth -= 1
    }
  }
}
