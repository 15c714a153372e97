/** The possible meanings of a text, the most likely one first. */
export type TextMeanings = readonly [string, ...string[]]

export interface ExtractedTexts {
  readonly filter: string
  readonly texts: readonly TextMeanings[]
}

/**
 * Replaces each text with its number. Texts should be JSON strings (RFC 7644, section 3.4.2.2), but many providers do not escape the backslash of
 * `DOMAIN\user`. If both readings differ, both are returned.
 */
export function extractTexts(filter: string): ExtractedTexts {
  const texts: TextMeanings[] = []
  let rest = ''
  for (let at = 0; at < filter.length;) {
    const begin = filter.indexOf('"', at)
    const end = begin < 0 ? -1 : endOfText(filter, begin)
    // The parser rejects a text without an end.
    if (end < 0) return { filter: rest + filter.slice(at), texts }
    rest += `${filter.slice(at, begin)}"${texts.length}"`
    texts.push(meaningsOf(filter.slice(begin, end)))
    at = end
  }
  return { filter: rest, texts }
}

function endOfText(filter: string, begin: number): number {
  for (let at = begin + 1; at < filter.length; at += 1) {
    if (filter[at] === '\\') at += 1
    else if (filter[at] === '"') return at + 1
  }
  return -1
}

function meaningsOf(literal: string): TextMeanings {
  const asWritten = literal.slice(1, -1).replaceAll('\\"', '"').normalize('NFC')
  const read = asJson(literal)?.normalize('NFC')
  return read === undefined || read === asWritten ? [asWritten] : [read, asWritten]
}

function asJson(literal: string): string | undefined {
  let text: unknown
  try {
    text = JSON.parse(literal)
  } catch {
    return undefined
  }
  return typeof text === 'string' && text.isWellFormed() && !text.includes('\0') ? text : undefined
}
