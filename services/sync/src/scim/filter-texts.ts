/** What a text of a filter may mean, the likeliest first. */
export type TextMeanings = readonly [string, ...string[]]

/** A filter whose texts are taken out of it: each stands there as its place in the list. */
export interface TakenTexts {
  readonly filter: string
  readonly texts: readonly TextMeanings[]
}

/**
 * Takes the texts out of a filter. They are as in JSON (RFC 7644 section 3.4.2.2), and many providers send them as they are, a
 * backslash of `DOMAIN\user` among them: both readings are given where they differ, and the parser, which knows a third, sees neither.
 */
export function takeTexts(filter: string): TakenTexts {
  const texts: TextMeanings[] = []
  let rest = ''
  for (let at = 0; at < filter.length;) {
    const begin = filter.indexOf('"', at)
    const end = begin < 0 ? -1 : endOfText(filter, begin)
    // What has no end is left to the parser, which refuses it.
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

/** Undefined where it is no text of JSON, or none that could be stored. */
function asJson(literal: string): string | undefined {
  let text: unknown
  try {
    text = JSON.parse(literal)
  } catch {
    return undefined
  }
  return typeof text === 'string' && text.isWellFormed() && !text.includes('\0') ? text : undefined
}
