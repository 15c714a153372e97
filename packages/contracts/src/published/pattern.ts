const control = String.raw`\x00-\x1f\x7f-\x9f`
/** Go repeats a group at most this often. */
const mostRepeats = 1000

/**
 * The result means the same in JavaScript, Python, Java and Go if it is anchored; undefined if that is not possible.
 */
export function portablePattern(pattern: string): string | undefined {
  if (!pattern.startsWith('^') || !pattern.endsWith('$')) return undefined
  const portable = escapeBrackets(pattern)
    // Tools escape a slash again where their language needs it.
    .replaceAll(/\\(.)/gs, (pair, character) => (character === '/' ? '/' : pair))
    .replaceAll(String.raw`\p{Cc}`, control)
    // Texts in JSON have no lone surrogates.
    .replaceAll(String.raw`\p{Cs}`, '')
    .replaceAll(/\\u([0-9a-f]{4})/gi, (_match, hex: string) => characterOf(hex))
  const isKnownEverywhere = !/\\[pPu]|\(\?(?!:)/.test(portable)
  const repeats = [...portable.matchAll(/\{(?:\d+,)?(\d+)\}/g)].map(([, most]) => Number(most))
  return isKnownEverywhere && repeats.every((most) => most <= mostRepeats) ? portable : undefined
}

/** Java reads `[` within a character class as the start of another one. */
function escapeBrackets(pattern: string): string {
  let isInClass = false
  return pattern.replaceAll(/\\.|[[\]]/gs, (part) => {
    if (part === ']') isInClass = false
    if (part !== '[') return part
    if (isInClass) return String.raw`\[`
    isInClass = true
    return part
  })
}

function characterOf(hex: string): string {
  const code = Number.parseInt(hex, 16)
  return code <= 0xff ? `\\x${code.toString(16).padStart(2, '0')}` : String.fromCharCode(code)
}
